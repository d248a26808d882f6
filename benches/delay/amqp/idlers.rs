//! Clients that connect, open their connection and then do nothing, not even heartbeats.
//!
//! They speak the few frames of a handshake themselves: a client library has threads and buffers
//! for each connection, of which thousands would take the machine.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use lapin::uri::AMQPUri;
use serde::{Deserialize, Serialize};

use crate::role::{self, Role};

pub(crate) const ROLE: &str = "idlers";

const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// What they are told.
#[derive(Serialize, Deserialize)]
struct Crowd {
    server: String,
    connections: u32,
}

/// Starts them, and waits until all are connected.
pub(crate) fn start(server: &str, connections: u32) -> anyhow::Result<Role> {
    let mut idlers = Role::start(ROLE, &Crowd { server: server.to_owned(), connections })?;
    let _ready: String = idlers.answer()?;
    Ok(idlers)
}

pub(crate) fn main() -> anyhow::Result<ExitCode> {
    let (Crowd { server, connections }, gone) = role::receive()?;
    let uri: AMQPUri = server.parse().map_err(|why: String| anyhow!("the URL: {why}"))?;
    let crowd = (1..=connections).map(|number| {
        connect(&uri).with_context(|| format!("connection {number} of {connections}"))
    });
    let _crowd: Vec<TcpStream> = crowd.collect::<anyhow::Result<_>>()?;
    role::say(&"connected")?;
    let _ = gone.blocking_recv();
    Ok(ExitCode::SUCCESS)
}

fn connect(uri: &AMQPUri) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect((uri.authority.host.as_str(), uri.authority.port))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(b"AMQP\x00\x00\x09\x01")?;
    expect(&mut stream, 10, "start")?;

    let user = &uri.authority.userinfo;
    let mut start_ok = vec![0, 0, 0, 0]; // properties of the client: none
    short(&mut start_ok, "PLAIN")?;
    let response = format!("\0{}\0{}", user.username, user.password);
    start_ok.extend(u32::try_from(response.len())?.to_be_bytes());
    start_ok.extend(response.as_bytes());
    short(&mut start_ok, "en_US")?;
    send(&mut stream, 11, &start_ok)?;

    let tune = expect(&mut stream, 30, "tune")?;
    let mut tune_ok = tune.get(..6).context("a tune cut short")?.to_vec();
    tune_ok.extend([0, 0]); // no heartbeats
    send(&mut stream, 31, &tune_ok)?;

    let mut open = Vec::new();
    short(&mut open, &uri.vhost)?;
    open.extend([0, 0]); // reserved
    send(&mut stream, 40, &open)?;
    expect(&mut stream, 41, "open-ok")?;
    Ok(stream)
}

/// Sends a method of class connection.
fn send(stream: &mut TcpStream, method: u8, arguments: &[u8]) -> anyhow::Result<()> {
    let length = u32::try_from(4 + arguments.len())?.to_be_bytes();
    let mut frame = vec![1, 0, 0];
    frame.extend(length);
    frame.extend([0, 10, 0, method]);
    frame.extend(arguments);
    frame.push(0xce);
    stream.write_all(&frame).context("answering")
}

/// Reads a method of class connection; answers its arguments.
fn expect(stream: &mut TcpStream, method: u8, name: &str) -> anyhow::Result<Vec<u8>> {
    let mut lead = [0; 7];
    stream.read_exact(&mut lead).with_context(|| format!("waiting for {name}"))?;
    let [.., a, b, c, d] = lead;
    let mut payload = vec![0; u32::from_be_bytes([a, b, c, d]) as usize + 1];
    stream.read_exact(&mut payload).with_context(|| format!("reading {name}"))?;
    if payload.get(..4) != Some(&[0, 10, 0, method]) {
        bail!("something else came than {name}: {:?}", payload.get(..4));
    }
    payload.pop(); // the end of the frame
    Ok(payload.split_off(4))
}

fn short(to: &mut Vec<u8>, text: &str) -> anyhow::Result<()> {
    to.push(u8::try_from(text.len()).context("a text of more than 255 bytes")?);
    to.extend(text.as_bytes());
    Ok(())
}
