// A client of tonic: echoes, counts, and is refused.
use bytes::{Buf, BufMut, Bytes};
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::transport::Channel;
use tonic::{Request, Status};

struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Raw;
    type Decoder = Raw;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> Raw {
        Raw
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

async fn ask(channel: Channel, path: &'static str, asked: Bytes) -> Result<Bytes, Status> {
    let mut client = Grpc::new(channel);
    client.ready().await.map_err(|error| Status::unknown(error.to_string()))?;
    let answer = client.unary(Request::new(asked), PathAndQuery::from_static(path), Raw).await?;
    Ok(answer.into_inner())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let address = std::env::args().nth(1).expect("an address");
    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let asking: Vec<_> = (0..2000)
        .map(|number| {
            let (channel, asked) = (channel.clone(), Bytes::from(format!("message {number}")));
            tokio::spawn(async move { ask(channel, "/test.Peers/Echo", asked.clone()).await.is_ok_and(|it| it == asked) })
        })
        .collect();
    let mut echoed = 0;
    for each in asking {
        echoed += usize::from(each.await?);
    }
    let mut client = Grpc::new(channel.clone());
    client.ready().await?;
    let path = PathAndQuery::from_static("/test.Peers/Count");
    let mut numbers = client.server_streaming(Request::new(Bytes::from("1000")), path, Raw).await?.into_inner();
    let mut counted = 0;
    while numbers.message().await?.is_some() {
        counted += 1;
    }
    let refused = ask(channel, "/test.Peers/Refuse", Bytes::new()).await.expect_err("a refusal");
    println!("{echoed} echoed, {counted} counted, refused with {:?}", refused.code());
    Ok(())
}
