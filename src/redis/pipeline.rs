//! Commands as Redis takes them, and its replies.

use redis::{Pipeline, Value};

use super::error_hints;
use crate::forest::shared::keys::{Command, Key, KeyOp, LATEST, Lifetime, RedisReply, lifetime_millis};
use crate::method::Durable;

/// Function library of the nodes.
pub(super) const LIBRARY: &str = include_str!("functions.lua");

/// Reply of a node to one command.
pub(super) enum CommandReply {
    Done(RedisReply),
    /// Not executed: another node has the slot, and the slots are to be read again.
    Elsewhere,
    /// Another node has it, for this once.
    Ask(String),
    /// It is not ready yet.
    Later,
    /// The functions are not loaded.
    Unknown,
    /// Refused, of all commands.
    Denied(String),
    /// An error of another kind, perhaps of a proxy that has passed the command on.
    Failed(String),
    /// Refused without effect because of the value at the key.
    Unusable(String),
    /// No memory for new values.
    Full(String),
}

impl CommandReply {
    /// Whether it says that the command was not run. So does an error from within a function that writes once, at its
    /// end, as a release does.
    pub(super) fn is_refusal(&self) -> bool {
        !matches!(self, CommandReply::Done(_) | CommandReply::Failed(_))
    }
}

/// Keys per read command: batching saves a quarter of the processor time per key, larger batches no more.
const READ: usize = 64;

/// Commands sent to a node together.
pub(super) struct NodeBatch {
    /// The places of the commands.
    pub(super) places: Vec<usize>,
    pipeline: Pipeline,
    /// For each of those that are sent, how many reads it is; `None`: it is a command.
    reads_of: Vec<Option<usize>>,
    /// Keys that are read next, by one command.
    reads: Vec<Key>,
    joins_reads: bool,
}

impl NodeBatch {
    /// `joins_reads`: one command may be about several keys.
    pub(super) fn new(joins_reads: bool) -> NodeBatch {
        NodeBatch {
            places: Vec::new(),
            pipeline: Pipeline::new(),
            reads_of: Vec::new(),
            reads: Vec::new(),
            joins_reads,
        }
    }

    /// Adds the command of a place. The order of commands stays. `is_unusable`: its key is known to hold what is no
    /// value of a forest, which a joined read would tell as nothing.
    pub(super) fn add(&mut self, place: usize, command: &Command, is_unusable: bool) {
        self.places.push(place);
        if self.joins_reads && command.what == KeyOp::Get && !is_unusable {
            self.reads.push(command.key);
            if self.reads.len() == READ {
                self.read();
            }
            return;
        }
        self.read();
        self.reads_of.push(None);
        add(command, &mut self.pipeline);
    }

    fn read(&mut self) {
        if self.reads.is_empty() {
            return;
        }
        self.reads_of.push(Some(self.reads.len()));
        let read = self.pipeline.cmd("MGET");
        for key in self.reads.drain(..) {
            let (key, len) = key.bytes();
            read.arg(key.get(..len).unwrap_or_default());
        }
    }

    /// Returns positions, pipeline, and for each command the number of reads it combines.
    pub(super) fn end(mut self) -> (Vec<usize>, Pipeline, Vec<Option<usize>>) {
        self.read();
        (self.places, self.pipeline, self.reads_of)
    }
}

/// The replies of all keys. What was read together and has failed is the fault of no single key.
pub(super) fn replies(values: Vec<Value>, reads_of: &[Option<usize>]) -> Vec<CommandReply> {
    let mut replies = Vec::with_capacity(values.len());
    for (value, reads) in values.into_iter().zip(reads_of) {
        match (value, reads) {
            (value, None) => replies.push(read(value)),
            (Value::Array(values), Some(reads)) if values.len() == *reads => {
                replies.extend(values.into_iter().map(read));
            }
            (value, Some(reads)) => replies.extend((0..*reads).map(|_| read_of_several(&value))),
        }
    }
    replies
}

/// Parses a reply to several reads in one that is not one for each.
fn read_of_several(value: &Value) -> CommandReply {
    match (value, read(value.clone())) {
        (Value::ServerError(_), CommandReply::Unusable(reason)) => CommandReply::Failed(reason),
        (Value::ServerError(_), reply) => reply,
        _ => CommandReply::Failed(unexpected(value)),
    }
}

fn unexpected(value: &Value) -> String {
    format!("an answer of a kind that nobody asked for: {value:?}")
}

/// Appends a command to a pipeline.
pub(super) fn add(command: &Command, pipeline: &mut Pipeline) {
    let (key, len) = command.key.bytes();
    let key = key.get(..len).unwrap_or_default();
    match &command.what {
        KeyOp::Get => {
            pipeline.cmd("GET").arg(key);
        }
        KeyOp::Claim { value, life } => {
            pipeline.cmd("SET").arg(key).arg(value.as_slice()).arg("NX").arg("GET");
            add_life(*life, pipeline);
        }
        KeyOp::Put { value, life } => {
            pipeline.cmd("SET").arg(key).arg(value.as_slice());
            add_life(*life, pipeline);
        }
        function => add_call(function, key, pipeline),
    }
}

/// Appends a command that is a function of `functions.lua`.
fn add_call(what: &KeyOp, key: &[u8], pipeline: &mut Pipeline) {
    match what {
        // Commands of Redis itself: see `add`.
        KeyOp::Get | KeyOp::Claim { .. } | KeyOp::Put { .. } => {}
        KeyOp::Swap { before, or_nothing, value, life } => {
            let (kind, time) = life_of(*life);
            call("spinney1_swap", key, pipeline)
                .arg(before.as_slice())
                .arg(u8::from(*or_nothing))
                .arg(value.as_slice())
                .arg(kind)
                .arg(time);
        }
        KeyOp::Confirm { token, value, life } => {
            let (kind, time) = life_of(*life);
            call("spinney1_confirm", key, pipeline)
                .arg(token.bytes().as_slice())
                .arg(value.as_slice())
                .arg(kind)
                .arg(time);
        }
        KeyOp::Remove { value } => {
            call("spinney1_remove", key, pipeline).arg(value.as_slice());
        }
        KeyOp::Pin { token, uses, children, nonce, step, life } => {
            let (kind, time) = life_of(*life);
            call("spinney1_pin", key, pipeline)
                .arg(token.bytes().as_slice())
                .arg(*uses)
                .arg(*children)
                .arg(*step)
                .arg(kind)
                .arg(time)
                .arg(nonce.number)
                .arg(u8::from(nonce.is_sent_again));
        }
        KeyOp::Hold { token, uses, children, nonce } => {
            call("spinney1_pin", key, pipeline)
                .arg(token.bytes().as_slice())
                .arg(*uses)
                .arg(*children)
                .arg(["", "", ""].as_slice())
                .arg(nonce.number)
                .arg(u8::from(nonce.is_sent_again));
        }
        KeyOp::Arrive { token, step, life } => {
            let (kind, time) = life_of(*life);
            call("spinney1_arrive", key, pipeline).arg(token.bytes().as_slice()).arg(*step).arg(kind).arg(time);
        }
        KeyOp::Touch { value, life } => {
            let (kind, time) = life_of(*life);
            call("spinney1_touch", key, pipeline).arg(value.as_slice()).arg(kind).arg(time);
        }
        KeyOp::RemoveLeaf { root, token } => {
            let mut tree = root.0.to_be_bytes().to_vec();
            tree.extend(token.bytes());
            call("spinney1_remove_leaf", key, pipeline).arg(tree);
        }
        KeyOp::Enter { fingerprint, step, life } => {
            let (kind, time) = life_of(*life);
            let mut entry = fingerprint.0.to_be_bytes().to_vec();
            entry.push(*step);
            call("spinney1_enter", key, pipeline).arg(entry).arg(kind).arg(time);
        }
        KeyOp::Advance { to } => {
            call("spinney1_advance", key, pipeline).arg(to.0);
        }
        KeyOp::Release { token, uses } => {
            call("spinney1_release", key, pipeline).arg(token.bytes().as_slice()).arg(*uses);
        }
        KeyOp::Since { head } => {
            call("spinney1_since", key, pipeline).arg(head.as_slice());
        }
        KeyOp::Turn { before, value } => {
            let before = before.as_ref().map_or(&[][..], |head| &head[..]);
            call("spinney1_turn", key, pipeline).arg(before).arg(value.as_slice());
        }
        KeyOp::Acknowledge { process, acknowledged, life } => {
            call("spinney1_tell", key, pipeline).arg(format!("{process:016x}")).arg(*acknowledged).arg(*life);
        }
        KeyOp::Count { token, tally } => {
            let mut bytes = Vec::with_capacity(17);
            tally.write(&mut bytes);
            call("spinney1_count", key, pipeline).arg(token.bytes().as_slice()).arg(bytes.as_slice());
        }
    }
}

fn call<'p>(function: &str, key: &[u8], pipeline: &'p mut Pipeline) -> &'p mut Pipeline {
    pipeline.cmd("FCALL").arg(function).arg(1).arg(key)
}

fn add_life(life: Lifetime, pipeline: &mut Pipeline) {
    let (kind, time) = life_of(life);
    if !kind.is_empty() {
        pipeline.arg(kind).arg(time);
    }
}

fn life_of(life: Lifetime) -> (&'static str, i64) {
    match life {
        Lifetime::Endless => ("", 0),
        Lifetime::For(time) => ("PX", lifetime_millis(time)),
        // Redis refuses a moment before 1970.
        Lifetime::Until(at) => ("PXAT", at.0.clamp(1, LATEST)),
    }
}

/// Parses a reply.
pub(super) fn read(value: Value) -> CommandReply {
    let error = match value {
        Value::Nil | Value::Okay | Value::SimpleString(_) => {
            return CommandReply::Done(RedisReply::Nothing);
        }
        Value::BulkString(bytes) => return CommandReply::Done(RedisReply::Bytes(bytes)),
        Value::Int(number) => return CommandReply::Done(RedisReply::Number(number)),
        Value::ServerError(error) => error,
        other => {
            return CommandReply::Failed(unexpected(&other));
        }
    };
    let details = error.details().unwrap_or_default();
    match error.code() {
        "MOVED" | "CLUSTERDOWN" | "READONLY" | "MASTERDOWN" => CommandReply::Elsewhere,
        "ASK" => CommandReply::Ask(details.split_whitespace().last().unwrap_or_default().to_owned()),
        "TRYAGAIN" | "LOADING" | "BUSY" => CommandReply::Later,
        "ERR" if details.contains("Function not found") => CommandReply::Unknown,
        error_hints::FULL => CommandReply::Full(error_hints::refused(error_hints::FULL, details)),
        "NOPERM" | "NOAUTH" | "MISCONF" | "NOREPLICAS" => {
            CommandReply::Denied(error_hints::refused(error.code(), details))
        }
        code if is_of_key(code, details) => CommandReply::Unusable(error_hints::refused(code, details)),
        code => CommandReply::Failed(error_hints::refused(code, details)),
    }
}

/// Whether this error is of the one key, which another program may have written: it must not end the service for all
/// other keys. Any other error says nothing of what is at a key.
fn is_of_key(code: &str, details: &str) -> bool {
    match code {
        "WRONGTYPE" => true,
        // Functions fail with it, and name themselves, where a value is not what they expect.
        "ERR" => details.contains("script: spinney"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::forest::shared::keys::KeyKind;

    fn command(fingerprint: u64, what: KeyOp) -> Command {
        let key = Key { forest: 1, fingerprint: Fingerprint(fingerprint), kind: KeyKind::Node };
        Command { key, what }
    }

    #[test]
    fn reads_are_joined_and_the_order_stays() {
        let gets = |from: u64, count: u64| (from..from + count).map(|n| command(n, KeyOp::Get));
        let remove = || command(9, KeyOp::Remove { value: vec![1] });
        let commands = gets(0, 3).chain([remove(), remove()]);
        let commands: Vec<Command> = commands.chain(gets(3, 2 * READ as u64 + 1)).collect();
        let sent = |joins_reads| {
            let mut part = NodeBatch::new(joins_reads);
            for (place, command) in commands.iter().enumerate() {
                part.add(place, command, false);
            }
            let (places, pipeline, reads_of) = part.end();
            assert_eq!(places, (0..commands.len()).collect::<Vec<_>>());
            assert_eq!(pipeline.len(), reads_of.len());
            reads_of
        };
        let reads = [3, READ, READ, 1].map(Some);
        let [first, rest @ ..] = reads;
        assert_eq!(sent(true), [&[first, None, None], &rest[..]].concat());
        assert_eq!(sent(false), vec![None; commands.len()]);
    }

    /// What a reply says, in short.
    fn kind(reply: &CommandReply) -> &'static str {
        match reply {
            CommandReply::Done(RedisReply::Nothing) => "nothing",
            CommandReply::Done(_) => "value",
            CommandReply::Elsewhere => "elsewhere",
            CommandReply::Ask(_) => "ask",
            CommandReply::Later => "later",
            CommandReply::Unknown => "unknown",
            CommandReply::Denied(_) => "denied",
            CommandReply::Failed(_) => "failed",
            CommandReply::Unusable(_) => "unusable",
            CommandReply::Full(_) => "full",
        }
    }

    fn kinds(values: Vec<Value>, reads_of: &[Option<usize>]) -> Vec<&'static str> {
        replies(values, reads_of).iter().map(kind).collect()
    }

    fn parsed(reply: &str) -> Value {
        redis::parse_redis_value(format!("{reply}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn values_and_errors_are_those_of_single_commands() {
        let read = Value::Array(vec![Value::Nil, Value::BulkString(b"a".to_vec())]);
        let values = vec![read, Value::Int(1), parsed("-LOADING the data")];
        assert_eq!(kinds(values, &[Some(2), None, Some(3)]), ["nothing", "value", "value", "later", "later", "later"]);
    }

    /// It would count as absent, and its text would get a second root.
    #[test]
    fn what_fails_for_several_keys_is_the_fault_of_none() {
        let of_key = ["-WRONGTYPE Operation against a key", "-ERR user_function:3: bad script: spinney1_pin, on @user"];
        for reply in of_key {
            let value = parsed(reply);
            assert_eq!(
                kinds(vec![value.clone(), value], &[None, Some(2)]),
                ["unusable", "failed", "failed"],
                "{reply}"
            );
        }
        let of_node = [
            "-CROSSSLOT Keys in request don't hash to the same slot",
            "-UNBLOCKED client unblocked",
            "-ERR unknown command",
            "-SOMETHING new",
        ];
        for reply in of_node {
            let value = parsed(reply);
            assert_eq!(kinds(vec![value.clone(), value], &[None, Some(1)]), ["failed", "failed"], "{reply}");
        }
        let denied =
            ["-NOAUTH Authentication required.", "-NOPERM this user has no permissions", "-MISCONF errors writing"];
        for reply in denied {
            let value = parsed(reply);
            assert_eq!(kinds(vec![value.clone(), value], &[None, Some(1)]), ["denied", "denied"], "{reply}");
        }
        for odd in [Value::Nil, Value::Int(2), Value::BulkString(b"a".to_vec()), Value::Array(vec![Value::Nil])] {
            assert_eq!(kinds(vec![odd], &[Some(2)]), ["failed", "failed"]);
        }
    }
}
