//! Publishes and gets messages that no AMQP client lets out or in: names and short strings that are
//! not UTF-8.
//!
//! Frames are written by hand over a blocking socket, one connection per message. The properties
//! are the caller's bytes, so a test decides alone what the broker gets; [`properties`] builds the
//! usual ones.

#![allow(dead_code)] // Each test file uses its own part.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);
const FRAME_MAX: u32 = 131_072;
const METHOD: u8 = 1;
const HEADER: u8 = 2;
const BODY: u8 = 3;
const END: u8 = 0xCE;

type Method = (u16, u16);

/// Publishes one message and waits for the broker's confirm; `properties` are the content header's
/// flags and list. An error tells what the broker answered instead.
#[allow(clippy::too_many_arguments)]
pub fn publish_raw(
    addr: impl ToSocketAddrs,
    vhost: &str,
    user: &str,
    pass: &str,
    exchange: &str,
    routing_key: &[u8],
    properties: &[u8],
    body: &[u8],
) -> io::Result<()> {
    let mut wire = Wire::login(addr, vhost, user, pass)?;
    wire.call(1, (20, 10), &[0], (20, 11))?; // channel.open
    wire.call(1, (85, 10), &[0], (85, 11))?; // confirm.select

    let mut publish = vec![0, 0]; // reserved
    publish.extend(short(exchange.as_bytes()));
    publish.extend(short(routing_key));
    publish.push(0); // neither mandatory nor immediate
    wire.send(METHOD, 1, &method((60, 40), &publish))?;
    let mut header = vec![0, 60, 0, 0]; // class basic, weight 0
    header.extend((body.len() as u64).to_be_bytes());
    header.extend(properties);
    wire.send(HEADER, 1, &header)?;
    for part in body.chunks(FRAME_MAX as usize - 8) {
        wire.send(BODY, 1, part)?;
    }
    wire.answer((60, 80))?; // basic.ack
    let close = [&[0, 200][..], &short(b"done"), &[0; 4]].concat();
    wire.call(0, (10, 50), &close, (10, 51))?;
    Ok(())
}

/// A message as it stands in a queue: routing key, flags and list of its properties, and body.
pub type Got = (Vec<u8>, Vec<u8>, Vec<u8>);

/// Takes the next message off a queue. Its body fits a frame.
pub fn get_raw(
    addr: impl ToSocketAddrs,
    vhost: &str,
    user: &str,
    pass: &str,
    queue: &str,
) -> io::Result<Got> {
    let mut wire = Wire::login(addr, vhost, user, pass)?;
    wire.call(1, (20, 10), &[0], (20, 11))?; // channel.open
    let get = [&[0, 0][..], &short(queue.as_bytes()), &[1]].concat(); // not to be acked
    wire.send(METHOD, 1, &method((60, 70), &get))?;
    let (_, found) = wire.next()?;
    let found = found.strip_prefix(&method((60, 71), &[])[..]);
    let found = found.ok_or_else(|| io::Error::other(format!("nothing in {queue}")))?;
    // Before the routing key: tag, whether it came before, and the exchange.
    let exchange = usize::from(found[9]);
    let key = &found[10 + exchange..];
    let routing_key = key[1..=usize::from(key[0])].to_vec();
    let (_, header) = wire.next()?;
    let (properties, has_body) = (header[12..].to_vec(), header[4..12] != [0; 8]);
    let body = if has_body { wire.next()?.1 } else { Vec::new() };
    Ok((routing_key, properties, body))
}

/// A persistent message's property bytes: headers with string values, their names any bytes, and
/// perhaps a correlation id of any bytes.
pub fn properties(headers: &[(&[u8], &[u8])], correlation_id: Option<&[u8]>) -> Vec<u8> {
    const HEADERS: u16 = 1 << 13;
    const DELIVERY_MODE: u16 = 1 << 12;
    const CORRELATION_ID: u16 = 1 << 10;
    let correlation_flag = correlation_id.map_or(0, |_| CORRELATION_ID);
    let mut bytes = (HEADERS | DELIVERY_MODE | correlation_flag).to_be_bytes().to_vec();
    let mut table = Vec::new();
    for (name, value) in headers {
        table.extend(short(name));
        table.push(b'S');
        table.extend(long(value));
    }
    bytes.extend(long(&table));
    bytes.push(2); // persistent
    bytes.extend(correlation_id.map(short).unwrap_or_default());
    bytes
}

fn method((class, number): Method, arguments: &[u8]) -> Vec<u8> {
    [&class.to_be_bytes()[..], &number.to_be_bytes(), arguments].concat()
}

fn short(bytes: &[u8]) -> Vec<u8> {
    let length = u8::try_from(bytes.len()).expect("a short string has at most 255 bytes");
    [&[length], bytes].concat()
}

fn long(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes(), bytes].concat()
}

struct Wire(TcpStream);

impl Wire {
    fn login(addr: impl ToSocketAddrs, vhost: &str, user: &str, pass: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(addr)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut wire = Self(stream);
        wire.0.write_all(b"AMQP\0\0\x09\x01")?;
        wire.answer((10, 10))?;
        let mut start_ok = long(b""); // no client properties
        start_ok.extend(short(b"PLAIN"));
        start_ok.extend(long(format!("\0{user}\0{pass}").as_bytes()));
        start_ok.extend(short(b"en_US"));
        wire.call(0, (10, 11), &start_ok, (10, 30))?; // start-ok, then tune
        let mut tune_ok = 1u16.to_be_bytes().to_vec(); // channels
        tune_ok.extend(FRAME_MAX.to_be_bytes());
        tune_ok.extend([0, 0]); // no heartbeat
        wire.send(METHOD, 0, &method((10, 31), &tune_ok))?;
        let open = [&short(vhost.as_bytes())[..], &[0, 0]].concat();
        wire.call(0, (10, 40), &open, (10, 41))?;
        Ok(wire)
    }

    fn send(&mut self, kind: u8, channel: u16, payload: &[u8]) -> io::Result<()> {
        let mut frame = vec![kind];
        frame.extend(channel.to_be_bytes());
        frame.extend(long(payload));
        frame.push(END);
        self.0.write_all(&frame)
    }

    fn call(&mut self, on: u16, what: Method, arguments: &[u8], then: Method) -> io::Result<()> {
        self.send(METHOD, on, &method(what, arguments))?;
        self.answer(then)
    }

    /// The next frame: its kind, and what is in it.
    fn next(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut lead = [0; 7];
        self.0.read_exact(&mut lead)?;
        let length = u32::from_be_bytes([lead[3], lead[4], lead[5], lead[6]]);
        let mut payload = vec![0; length as usize + 1];
        self.0.read_exact(&mut payload)?;
        payload.pop();
        Ok((lead[0], payload))
    }

    /// The next method has to be this one.
    fn answer(&mut self, awaited: Method) -> io::Result<()> {
        let (kind, payload) = self.next()?;
        if kind == METHOD && payload.starts_with(&method(awaited, &[])) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&payload).into_owned();
        Err(io::Error::other(format!("awaited {awaited:?}, got {text:?}")))
    }
}
