//! Bad weather between xdelay and its neighbours, under load: nothing lost, nothing early, and it
//! gets well by itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::support::fault_proxy::{FaultProxy, Weather};
use super::support::load::{Account, all_arrived, consume, produce, seeded};
use super::support::rabbit::Rabbit;
use super::support::sidecar::Sidecar;
use super::support::{a_while, setting};

/// Which connection has the weather.
#[derive(Clone, Copy)]
enum Neighbour {
    Redis,
    RabbitMq,
}

const MESSAGES: usize = 600;

/// Sends load through xdelay while `storm` rages on its way to one neighbour.
async fn sail<F, W>(neighbour: Neighbour, storm: F)
where
    F: FnOnce(Arc<FaultProxy>) -> W,
    W: Future<Output = ()>,
{
    seeded();
    let rabbit = Rabbit::connect().await;
    let orders = rabbit.destination().await;
    let (key, variable) = match neighbour {
        Neighbour::Redis => ("REDIS__URL", "TEST_REDIS_URL"),
        Neighbour::RabbitMq => ("AMQP__URL", "TEST_AMQP_URL"),
    };
    let server = setting(variable);
    let proxy = Arc::new(FaultProxy::before(&server).await);
    let mut sidecar = Sidecar::new(&[&orders]);
    sidecar.set(key, &proxy.url(&server));
    sidecar.set("RELEASE__LEASE", "4s");
    sidecar.start().await;
    let (direct, account) = (setting("TEST_AMQP_URL"), Arc::new(Account::default()));
    let consumer = consume(&direct, &orders, &account);
    let front = format!("xdelay.{orders}");
    let pace = Duration::from_millis(5);
    let producer = produce(&direct, &front, &account, MESSAGES, pace);
    storm(Arc::clone(&proxy)).await;
    producer.await.expect("produced");
    proxy.calm();
    all_arrived(&account).await;
    let copies = account.settle_up();
    eprintln!("{MESSAGES} messages, {copies} copies");
    sidecar.ready().await;
    assert_eq!(sidecar.metric("xdelay_dead"), 0.0, "weather is no message's fault");
    consumer.abort();
}

/// The weather is real: what the other tests sail through is what they say.
#[tokio::test]
async fn the_proxy_does_what_it_says() {
    let echo = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("echo://{}/", echo.local_addr().expect("an address"));
    tokio::spawn(async move {
        while let Ok((mut peer, _)) = echo.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = peer.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    let proxy = FaultProxy::before(&url).await;
    let address = proxy.url(&url).replace("echo://", "").replace('/', "");
    let connect = || async { TcpStream::connect(&address).await.expect("connected") };
    let mut answer = [0; 10];
    let mut stream = connect().await;

    proxy.set(Weather { latency: Duration::from_millis(60), ..Weather::default() });
    let started = Instant::now();
    stream.write_all(b"0123456789").await.expect("written");
    stream.read_exact(&mut answer).await.expect("echoed");
    assert!(started.elapsed() >= Duration::from_millis(120), "there and back");

    proxy.set(Weather { silent: true, ..Weather::default() });
    stream.write_all(b"0123456789").await.expect("written");
    let silence = timeout(Duration::from_millis(100), stream.read(&mut answer)).await;
    assert!(silence.is_err(), "half-open");
    proxy.calm();
    stream.read_exact(&mut answer).await.expect("echoed late");

    proxy.reset();
    assert!(!matches!(stream.read(&mut answer).await, Ok(1..)), "reset");

    proxy.set(Weather { cut_after: Some(4), ..Weather::default() });
    let mut stream = connect().await;
    stream.write_all(b"0123456789").await.expect("written");
    let mut came = 0;
    while let Ok(more @ 1..) = stream.read(&mut answer).await {
        came += more;
    }
    assert!(came <= 4, "cut in the middle, after {came} bytes");
}

async fn slow(proxy: Arc<FaultProxy>) {
    proxy.set(Weather { latency: Duration::from_millis(40), ..Weather::default() });
    a_while(3_000..4_000).await;
}

async fn narrow(proxy: Arc<FaultProxy>) {
    proxy.set(Weather { bytes_per_second: Some(50_000), ..Weather::default() });
    a_while(3_000..4_000).await;
}

async fn flapping(proxy: Arc<FaultProxy>) {
    for _ in 0..20 {
        a_while(20..300).await;
        proxy.reset();
    }
}

async fn cut_in_mid_frame(proxy: Arc<FaultProxy>) {
    for _ in 0..20 {
        proxy.set(Weather { cut_after: Some(fastrand::u64(1..6_000)), ..Weather::default() });
        a_while(50..300).await;
    }
}

async fn half_open(proxy: Arc<FaultProxy>) {
    a_while(500..1_000).await;
    proxy.set(Weather { silent: true, ..Weather::default() });
    // Longer than an answer may take, so that it is given up.
    a_while(7_000..8_000).await;
    proxy.calm();
}

async fn gone(proxy: Arc<FaultProxy>) {
    a_while(300..600).await;
    proxy.set(Weather { refusing: true, ..Weather::default() });
    proxy.reset();
    a_while(2_000..3_000).await;
    proxy.calm();
}

macro_rules! weathers {
    ($($weather:ident,)*) => {
        mod between_xdelay_and_redis {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $weather() {
                super::sail(super::Neighbour::Redis, super::$weather).await;
            })*
        }
        mod between_xdelay_and_rabbitmq {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $weather() {
                super::sail(super::Neighbour::RabbitMq, super::$weather).await;
            })*
        }
    };
}

weathers! {
    slow,
    narrow,
    flapping,
    cut_in_mid_frame,
    half_open,
    gone,
}
