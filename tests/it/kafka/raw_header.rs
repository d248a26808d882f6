//! Writes a record that no client writes: with a header whose name is not UTF-8. Spoken by hand,
//! as <https://kafka.apache.org/protocol> describes a Produce request and a batch of version 2.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::load::now_ms;

/// To partition 0, with these two headers, until it is confirmed.
pub async fn write(brokers: &str, topic: &str, headers: &[(&[u8], &[u8])]) {
    let batch = batch(headers);
    let mut request = Vec::new();
    // Produce, version 3, the first that Kafka 4 takes; no client id, no transaction, acks of all.
    for number in [0_i16, 3] {
        request.extend(number.to_be_bytes());
    }
    request.extend(7_i32.to_be_bytes());
    for number in [-1_i16, -1, -1] {
        request.extend(number.to_be_bytes());
    }
    for number in [10_000_i32, 1] {
        request.extend(number.to_be_bytes());
    }
    request.extend((topic.len() as i16).to_be_bytes());
    request.extend(topic.as_bytes());
    for number in [1_i32, 0, batch.len() as i32] {
        request.extend(number.to_be_bytes());
    }
    request.extend(batch);
    let mut stream = TcpStream::connect(brokers).await.expect("connected");
    stream.write_i32(request.len() as i32).await.expect("written");
    stream.write_all(&request).await.expect("written");
    let length = stream.read_i32().await.expect("answered");
    let mut answer = vec![0; length as usize];
    stream.read_exact(&mut answer).await.expect("answered");
    // Correlation, topics, the name, partitions, the partition: then the error.
    let error = 4 + 4 + 2 + topic.len() + 4 + 4;
    assert_eq!(answer[error..error + 2], [0, 0], "the broker took it");
}

fn batch(headers: &[(&[u8], &[u8])]) -> Vec<u8> {
    let record = record(headers);
    let mut checked = Vec::new();
    checked.extend(0_i16.to_be_bytes());
    checked.extend(0_i32.to_be_bytes());
    let now = now_ms() as i64;
    for number in [now, now, -1] {
        checked.extend(number.to_be_bytes());
    }
    checked.extend((-1_i16).to_be_bytes());
    for number in [-1_i32, 1] {
        checked.extend(number.to_be_bytes());
    }
    checked.extend(record);
    let mut batch = Vec::new();
    batch.extend(0_i64.to_be_bytes());
    batch.extend((4 + 1 + 4 + checked.len() as i32).to_be_bytes());
    batch.extend((-1_i32).to_be_bytes());
    batch.push(2);
    batch.extend(crc32c(&checked).to_be_bytes());
    batch.extend(checked);
    batch
}

fn record(headers: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut record = vec![0];
    for number in [0, 0, -1] {
        put(&mut record, number);
    }
    put(&mut record, 1);
    record.push(b'x');
    put(&mut record, headers.len() as i64);
    for bytes in headers.iter().flat_map(|(name, value)| [name, value]) {
        put(&mut record, bytes.len() as i64);
        record.extend(*bytes);
    }
    let mut whole = Vec::new();
    put(&mut whole, record.len() as i64);
    whole.extend(record);
    whole
}

/// A number of variable length, signs alternating.
fn put(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn crc32c(bytes: &[u8]) -> u32 {
    const CASTAGNOLI: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (CASTAGNOLI * (sum & 1)))
    })
}
