//! Messages on the wire: `Content-Length` headers, an empty line, a JSON body of that many bytes.

use std::io::{self, BufRead, Read};

/// What stands next on the wire.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// A body, complete.
    Body(Vec<u8>),
    /// A body of this many bytes, too long to be held; it was read and thrown away.
    TooLong(u64),
    /// The other side closed the stream between two messages.
    End,
    /// The stream cannot be followed any further, and why.
    Broken(&'static str),
}

/// Longest body that is held in memory, in bytes. Editors stop far below: VS Code at 50 MiB of text.
const MAX_BODY: u64 = 1 << 30;
/// Longest block of headers, in bytes.
const MAX_HEADERS: u64 = 8 << 10;
/// How much memory a header's promise alone can reserve, in bytes.
const MAX_RESERVED: u64 = 64 << 20;

/// Reads one message.
pub fn read(input: &mut impl BufRead) -> io::Result<Frame> {
    let length = match read_headers(input)? {
        Headers::Length(length) => length,
        Headers::End => return Ok(Frame::End),
        Headers::Broken(why) => return Ok(Frame::Broken(why)),
    };
    if length > MAX_BODY {
        let skipped = io::copy(&mut input.take(length), &mut io::sink())?;
        return Ok(if skipped == length { Frame::TooLong(length) } else { Frame::Broken("the stream ended inside a message") });
    }
    let mut body = Vec::with_capacity(length.min(MAX_RESERVED) as usize);
    let got = input.take(length).read_to_end(&mut body)? as u64;
    Ok(if got == length { Frame::Body(body) } else { Frame::Broken("the stream ended inside a message") })
}

/// The headers that go in front of a body.
pub fn headers(body: &[u8]) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes()
}

enum Headers {
    Length(u64),
    End,
    Broken(&'static str),
}

fn read_headers(input: &mut impl BufRead) -> io::Result<Headers> {
    let mut input = input.take(MAX_HEADERS);
    let mut length = None;
    let mut line = Vec::new();
    let mut first = true;
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line)? == 0 && first {
            return Ok(Headers::End);
        }
        if line.last() != Some(&b'\n') {
            return Ok(Headers::Broken("the headers of a message do not end"));
        }
        first = false;
        let text = line.trim_ascii();
        if text.is_empty() {
            break;
        }
        let Some(colon) = text.iter().position(|&byte| byte == b':') else {
            return Ok(Headers::Broken("a header of a message has no colon"));
        };
        let (name, value) = (&text[..colon], text[colon + 1..].trim_ascii());
        if !name.eq_ignore_ascii_case(b"content-length") {
            continue;
        }
        let number = std::str::from_utf8(value).ok().and_then(|v| v.parse().ok());
        match number {
            Some(number) => length = Some(number),
            None => return Ok(Headers::Broken("the Content-Length of a message is no number")),
        }
    }
    Ok(match length {
        Some(length) => Headers::Length(length),
        None => Headers::Broken("a message has no Content-Length"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(mut wire: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        loop {
            let frame = read(&mut wire).unwrap();
            let last = matches!(frame, Frame::End | Frame::Broken(_));
            frames.push(frame);
            if last {
                return frames;
            }
        }
    }

    #[test]
    fn bodies_follow_each_other() {
        let wire = b"Content-Length: 2\r\n\r\n{}content-length:3\r\nContent-Type: x\r\n\r\nabc";
        let body = |text: &str| Frame::Body(text.as_bytes().to_vec());
        assert_eq!(all(wire), [body("{}"), body("abc"), Frame::End]);
    }

    #[test]
    fn what_cannot_be_followed_ends_the_stream() {
        for wire in [
            "Content-Length: x\r\n\r\n{}",
            "Content-Type: a\r\n\r\n{}",
            "nonsense\r\n\r\n",
            "Content-Length: 9\r\n\r\n{}",
            "Content-Length: 9",
        ] {
            assert!(matches!(all(wire.as_bytes())[..], [Frame::Broken(_)]), "{wire:?}");
        }
        let endless = vec![b'a'; 1 << 20];
        assert!(matches!(all(&endless)[..], [Frame::Broken(_)]));
    }
}
