//! A broker that does what a test says: what a real one does only seldom or slowly.

use amq_protocol::frame::{AMQPFrame, parse_frame};
use amq_protocol::protocol::{AMQPClass, channel, connection};
use lapin::uri::AMQPUri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::connection::{Connection, Role, encode};
use super::link::Connect;

/// A connection, and the broker that it was made to; they agree on so many seconds of heartbeat.
pub(super) async fn meet<R: Role>(heartbeat: u16) -> (Connection<R>, Broker) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let uri = format!("amqp://{}/%2f", listener.local_addr().unwrap());
    let uri: AMQPUri = uri.parse().unwrap();
    let greet = async {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        Broker::greet(stream, heartbeat).await
    };
    let (connection, broker) = tokio::join!(Connection::connect(uri.into(), "test"), greet);
    (connection.unwrap(), broker)
}

/// The broker's end of one connection.
pub(super) struct Broker {
    pub(super) stream: TcpStream,
    pub(super) read: Vec<u8>,
}

impl Broker {
    /// Plays the handshake, up to the virtual host's being open.
    pub(super) async fn greet(stream: TcpStream, heartbeat: u16) -> Self {
        use connection::AMQPMethod as Connection;
        let mut broker = Self { stream, read: Vec::new() };
        assert!(matches!(broker.next().await, AMQPFrame::ProtocolHeader(_)));
        let start = connection::Start {
            version_minor: 9,
            mechanisms: "AMQPLAIN PLAIN".into(),
            ..connection::Start::default()
        };
        let tune = connection::Tune { channel_max: 9, frame_max: 0, heartbeat };
        broker.say(0, AMQPClass::Connection(Connection::Start(start))).await;
        broker.method().await;
        broker.say(0, AMQPClass::Connection(Connection::Tune(tune))).await;
        broker.method().await;
        broker.method().await;
        let ok = Connection::OpenOk(connection::OpenOk {});
        broker.say(0, AMQPClass::Connection(ok)).await;
        broker
    }

    /// Lets the client open channel 1.
    pub(super) async fn open_channel(&mut self) {
        self.method().await;
        let ok = channel::AMQPMethod::OpenOk(channel::OpenOk {});
        self.say(1, AMQPClass::Channel(ok)).await;
    }

    /// What the client sends next.
    pub(super) async fn next(&mut self) -> AMQPFrame {
        loop {
            if let Ok((rest, frame)) = parse_frame(&self.read[..]) {
                self.read = rest.to_vec();
                return frame;
            }
            let got = self.stream.read_buf(&mut self.read).await.unwrap();
            assert!(got > 0, "the client hung up");
        }
    }

    /// The same, where it is a method.
    pub(super) async fn method(&mut self) -> AMQPClass {
        match self.next().await {
            AMQPFrame::Method(_, method) => method,
            other => panic!("{other}"),
        }
    }

    /// Sends a method.
    pub(super) async fn say(&mut self, channel: u16, method: AMQPClass) {
        let bytes = encode(&AMQPFrame::Method(channel, method)).unwrap();
        self.stream.write_all(&bytes).await.unwrap();
    }

    /// Sends a frame of any kind.
    pub(super) async fn say_frame(&mut self, kind: u8, channel: u16, payload: &[u8]) {
        let length = u32::try_from(payload.len()).unwrap();
        let lead = [&[kind][..], &channel.to_be_bytes(), &length.to_be_bytes()].concat();
        self.stream.write_all(&[&lead, payload, &[0xCE]].concat()).await.unwrap();
    }
}
