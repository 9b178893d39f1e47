// A client of grpc-go: echoes, counts, and is refused.
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(v any) ([]byte, error)      { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error { *v.(*[]byte) = bytes.Clone(data); return nil }
func (raw) Name() string                       { return "proto" }

func main() {
	channel, err := grpc.NewClient(os.Args[1], grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{})))
	if err != nil {
		panic(err)
	}
	defer channel.Close()
	ctx := context.Background()
	var echoed atomic.Int64
	var all sync.WaitGroup
	for number := range 2000 {
		all.Add(1)
		go func() {
			defer all.Done()
			asked, answer := []byte(fmt.Sprint("message ", number)), []byte{}
			if err := channel.Invoke(ctx, "/test.Peers/Echo", &asked, &answer); err == nil && bytes.Equal(asked, answer) {
				echoed.Add(1)
			}
		}()
	}
	all.Wait()
	asked, answer := []byte("1000"), []byte{}
	stream, err := channel.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, "/test.Peers/Count")
	if err != nil {
		panic(err)
	}
	if err := stream.SendMsg(&asked); err != nil {
		panic(err)
	}
	if err := stream.CloseSend(); err != nil {
		panic(err)
	}
	counted := 0
	for ; ; counted++ {
		if err = stream.RecvMsg(&answer); err != nil {
			break
		}
	}
	if err != io.EOF {
		panic(err)
	}
	err = channel.Invoke(ctx, "/test.Peers/Refuse", &asked, &answer)
	fmt.Printf("%d echoed, %d counted, refused with %s\n", echoed.Load(), counted, status.Code(err))
}
