// A client of @grpc/grpc-js: echoes, counts, and is refused.
const grpc = require("@grpc/grpc-js");

const raw = (bytes) => bytes;
const method = (path, responseStream) => ({
  path,
  requestStream: false,
  responseStream,
  requestSerialize: raw,
  requestDeserialize: raw,
  responseSerialize: raw,
  responseDeserialize: raw,
});
const Peers = grpc.makeGenericClientConstructor({
  Echo: method("/test.Peers/Echo", false),
  Refuse: method("/test.Peers/Refuse", false),
  Count: method("/test.Peers/Count", true),
});
const client = new Peers(process.argv[2], grpc.credentials.createInsecure());

const echo = (text) =>
  new Promise((resolve, reject) =>
    client.Echo(Buffer.from(text), (error, answer) =>
      error ? reject(error) : resolve(answer.toString() === text),
    ),
  );

const count = () =>
  new Promise((resolve, reject) => {
    let counted = 0;
    client
      .Count(Buffer.from("1000"))
      .on("data", () => (counted += 1))
      .on("end", () => resolve(counted))
      .on("error", reject);
  });

const refused = () => new Promise((resolve) => client.Refuse(Buffer.alloc(0), (error) => resolve(error.code)));

(async () => {
  const echoed = await Promise.all(Array.from({ length: 2000 }, (_, number) => echo(`message ${number}`)));
  console.log(`${echoed.filter(Boolean).length} echoed, ${await count()} counted, refused with ${await refused()}`);
  client.close();
})();
