//! Records that a headless agent prints on standard output, read as they come and in bounded memory: what it has cost so far.

use serde_json::value::RawValue;

use super::{
    index::{Format, Index},
    limits::PRINTED_LINE_BYTES_MAX,
};

/// The records that one process of an agent has printed so far.
#[derive(Debug)]
pub struct OutputParser {
    index: Index,
    /// The last line, which may go on.
    line: Vec<u8>,
    is_too_long: bool,
}

impl OutputParser {
    /// The records of a process that has printed nothing yet.
    pub fn new(format: Format) -> Self {
        OutputParser { index: Index { format, ..Index::default() }, line: Vec::new(), is_too_long: false }
    }

    /// Takes in more of what was printed. True if that has told of a cost.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        let mut has_told = false;
        for part in bytes.split_inclusive(|&byte| byte == b'\n') {
            let (text, is_end) = part.strip_suffix(b"\n").map_or((part, false), |text| (text, true));
            if self.line.len() + text.len() > PRINTED_LINE_BYTES_MAX {
                self.is_too_long = true;
                self.line = Vec::new();
            }
            if !self.is_too_long {
                self.line.extend_from_slice(text);
            }
            if is_end {
                has_told |= self.end();
            }
        }
        has_told
    }

    /// Takes the last line for a whole one. True if that has told of a cost.
    pub fn end(&mut self) -> bool {
        let line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.is_too_long) {
            self.index.counts.oversized += 1;
            return false;
        }
        let results = self.index.counts.results;
        // All records of a run may stand in one list.
        match serde_json::from_slice::<Vec<&RawValue>>(&line) {
            Ok(records) => records.iter().for_each(|record| self.record(record.get().as_bytes())),
            Err(_) => self.record(&line),
        }
        self.index.counts.results > results && self.index.cost.is_some()
    }

    fn record(&mut self, record: &[u8]) {
        (self.index.format.records().apply)(&mut self.index, record, 0);
    }

    /// The cost of the process so far, in US dollars; none where it has told none.
    pub fn cost_usd(&self) -> Option<f64> {
        self.index.cost.map(|cost| cost.usd())
    }

    /// The agent's id of the conversation.
    pub fn conversation(&self) -> Option<&str> {
        self.index.facts.agent_session.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed() -> OutputParser {
        OutputParser::new(Format::StreamJson)
    }

    fn result(cost: f64) -> String {
        format!(r#"{{"type":"result","session_id":"one","total_cost_usd":{cost},"usage":{{"input_tokens":5}}}}"#)
    }

    #[test]
    fn a_cost_is_known_wherever_the_stream_is_cut() {
        let stream = format!("{{\"type\":\"system\",\"subtype\":\"init\"}}\r\n\u{1}no json\n{}\r\n{}", result(0.25), result(0.5));
        for size in [1, 7, 64, 4096] {
            let mut printed = printed();
            let told = stream.as_bytes().chunks(size).filter(|part| printed.take(part)).count();
            assert_eq!((told, printed.cost_usd(), printed.conversation()), (1, Some(0.25), Some("one")), "{size}");
            assert!(printed.end() && printed.cost_usd() == Some(0.5), "{size}: the last line needs no end");
            assert!(!printed.end(), "{size}");
        }
    }

    #[test]
    fn a_list_of_records_is_as_good() {
        let mut printed = printed();
        assert!(printed.take(format!("[{{\"type\":\"system\"}},5,{}]\n", result(0.25)).as_bytes()));
        assert_eq!(printed.cost_usd(), Some(0.25));
        assert!(!printed.take(b"[\n[]\n{}\n{\"type\":\"result\"\n") && printed.cost_usd() == Some(0.25));
    }

    #[test]
    fn what_is_no_cost_is_none() {
        for cost in ["-1", "1e12", "\"5\"", "null", "[]"] {
            let mut printed = printed();
            assert!(!printed.take(format!("{{\"type\":\"result\",\"total_cost_usd\":{cost}}}\n").as_bytes()), "{cost}");
            assert_eq!(printed.cost_usd(), None, "{cost}");
        }
    }

    #[test]
    fn a_line_without_end_takes_no_more_memory_than_the_bound() {
        let mut printed = printed();
        let piece = vec![b'x'; 1 << 20];
        for _ in 0..(PRINTED_LINE_BYTES_MAX >> 20) + 4 {
            printed.take(&piece);
            assert!(printed.line.capacity() <= 2 * PRINTED_LINE_BYTES_MAX);
        }
        assert!(!printed.take(b"\n") && printed.take(format!("{}\n", result(1.0)).as_bytes()));
        assert_eq!((printed.cost_usd(), printed.index.counts.oversized), (Some(1.0), 1));
    }
}
