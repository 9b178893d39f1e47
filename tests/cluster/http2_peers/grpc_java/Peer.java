// A client of grpc-java: echoes, counts, and is refused.
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.MethodDescriptor.MethodType;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.shaded.io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Iterator;
import java.util.List;
import java.util.concurrent.Future;

public final class Peer {
  private static final MethodDescriptor.Marshaller<byte[]> RAW =
      new MethodDescriptor.Marshaller<>() {
        @Override
        public InputStream stream(byte[] value) {
          return new ByteArrayInputStream(value);
        }

        @Override
        public byte[] parse(InputStream stream) {
          try {
            return stream.readAllBytes();
          } catch (IOException error) {
            throw new UncheckedIOException(error);
          }
        }
      };

  private static MethodDescriptor<byte[], byte[]> method(String name, MethodType type) {
    return MethodDescriptor.newBuilder(RAW, RAW)
        .setType(type)
        .setFullMethodName("test.Peers/" + name)
        .build();
  }

  private static byte[] message(int number) {
    return ("message " + number).getBytes();
  }

  public static void main(String[] arguments) throws Exception {
    ManagedChannel channel = NettyChannelBuilder.forTarget(arguments[0]).usePlaintext().build();
    MethodDescriptor<byte[], byte[]> echo = method("Echo", MethodType.UNARY);
    List<Future<byte[]>> answers = new ArrayList<>();
    for (int number = 0; number < 2000; number++) {
      answers.add(
          ClientCalls.futureUnaryCall(
              channel.newCall(echo, CallOptions.DEFAULT), message(number)));
    }
    int echoed = 0;
    for (int number = 0; number < 2000; number++) {
      echoed += Arrays.equals(answers.get(number).get(), message(number)) ? 1 : 0;
    }
    Iterator<byte[]> numbers =
        ClientCalls.blockingServerStreamingCall(
            channel, method("Count", MethodType.SERVER_STREAMING), CallOptions.DEFAULT, "1000".getBytes());
    int counted = 0;
    for (; numbers.hasNext(); numbers.next()) {
      counted++;
    }
    try {
      ClientCalls.blockingUnaryCall(
          channel, method("Refuse", MethodType.UNARY), CallOptions.DEFAULT, new byte[0]);
    } catch (StatusRuntimeException refused) {
      System.out.printf(
          "%d echoed, %d counted, refused with %s%n", echoed, counted, refused.getStatus().getCode());
    }
    channel.shutdownNow();
  }
}
