//! Server-sent events, as the API sends them: one `data` line per message.

use std::io::{BufRead as _, BufReader, Read};

/// Of one line.
const LINE_BYTES_MAX: u64 = 4 * 1024 * 1024;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) id: Option<String>,
    /// Empty for one without a name.
    pub(crate) kind: String,
    pub(crate) data: String,
}

pub(crate) struct Messages {
    lines: BufReader<Box<dyn Read + Send>>,
}

impl Messages {
    pub(super) fn new(body: impl Read + Send + 'static) -> Self {
        Self { lines: BufReader::new(Box::new(body)) }
    }

    fn line(&mut self) -> std::io::Result<Option<String>> {
        let mut line = String::new();
        let read = (&mut self.lines).take(LINE_BYTES_MAX).read_line(&mut line)?;
        Ok((read > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
    }
}

impl Iterator for Messages {
    type Item = std::io::Result<Message>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut message = Message::default();
        let mut is_begun = false;
        loop {
            let line = match self.line().transpose()? {
                Ok(line) => line,
                Err(error) => return Some(Err(error)),
            };
            if line.is_empty() {
                if std::mem::take(&mut is_begun) {
                    return Some(Ok(message));
                }
                continue;
            }
            let (name, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match name {
                "id" => message.id = Some(value.to_owned()),
                "event" => message.kind = value.to_owned(),
                "data" => message.data.push_str(value),
                // A comment, or what a later version adds.
                _ => continue,
            }
            is_begun = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_told_apart_and_comments_passed_over() {
        let body: &[u8] = b": hello\n\nid: 7\nevent: lines\ndata: {\"text\":\"a\"}\n\n: still here\n\ndata: x\r\n\r\nid: 9\n";
        let read: Vec<_> = Messages::new(body).map(Result::unwrap).collect();
        let message = |id: Option<&str>, kind: &str, data: &str| Message {
            id: id.map(str::to_owned),
            kind: kind.into(),
            data: data.into(),
        };
        assert_eq!(read, [message(Some("7"), "lines", "{\"text\":\"a\"}"), message(None, "", "x")]);
    }
}
