"""The journal: segments, the chain of records, and judging the bytes behind the last one. docs/format/store.md, "Journal"."""

import json
import os
import re
from dataclasses import dataclass, field

from encoding import EVENT, Damage, NotForUs, crc, derived, need, plain_hash

SEGMENT_HEADER_BYTES = 64
FRAME_BYTES = 48
RECORD_BYTES_MAX = 64 << 20
SEGMENT_BYTES = 8 << 20
SEARCH_END = SEGMENT_BYTES + RECORD_BYTES_MAX


@dataclass
class Record:
    sequence: int
    body: dict
    raw: bytes


@dataclass
class Journal:
    records: list = field(default_factory=list)
    lost: list = field(default_factory=list)  # first and last sequence of each stretch of records that is lost for good
    last: int = 0  # sequence of the last record
    torn_bytes: int = 0
    missing: int = 0
    is_doubtful: bool = False


def read(folder):
    """Every record, in order. Raises Damage where a committed one is damaged."""
    synced = read_synced(os.path.join(folder, "synced"))
    journal, hash_, end, rest, was_moved, began_behind = Journal(), bytes(32), 0, None, False, 0
    names = sorted(name for name in os.listdir(folder) if re.fullmatch(r"[0-9]{20}\.log", name))
    for number, name in enumerate(names):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        first, previous_end, previous_hash, is_behind_gap = segment_header(data, name)
        need(first == int(name[:20]), f"{name}: it begins with another record")
        has_end = was_moved or previous_end == end
        if is_behind_gap and first > journal.last and (has_end or previous_end == began_behind):
            if first > journal.last + 1:
                journal.lost.append((journal.last + 1, first - 1))
            journal.last, hash_ = first - 1, previous_hash
        else:
            is_beginning = number == 0 and (previous_end, previous_hash) == (0, bytes(32))
            if is_beginning and first > 1:
                raise NotForUs(f"a journal that begins with record {first}, behind a snapshot")
            need(first == journal.last + 1, f"{name}: a segment or a record before it is missing")
            need(has_end and previous_hash == hash_, f"{name}: it does not continue the segment before")
        at, was_moved, began_behind = SEGMENT_HEADER_BYTES, is_behind_gap, previous_end
        while (frame := whole_frame(data, at)) and frame[:2] == (journal.last + 1, hash_):
            body = parse_record(frame[2], f"{name}: record {frame[0]}")
            journal.records.append(Record(frame[0], body, frame[2]))
            hash_ = plain_hash(data[at + 8 : at + FRAME_BYTES + len(frame[2])])
            at += FRAME_BYTES + len(frame[2])
            journal.last = frame[0]
        end = at
        if number + 1 == len(names) and at < len(data):
            journal.torn_bytes = len(data) - at
            rest = judge(data, at, journal.last + 1, hash_)
    journal.missing = max(0, (synced or 0) - journal.last)
    journal.is_doubtful = rest == "doubtful"
    lost = journal.missing and (rest in ("torn", "doubtful") or not names)
    need(rest != "damaged" and not lost, f"journal record {journal.last + 1}: it was committed, and is damaged or missing")
    check_events(journal)
    return journal


def read_synced(path):
    """The sequence that the hint names; None where there is no valid hint."""
    try:
        with open(path, "rb") as file:
            found = re.fullmatch(rb"([0-9]+) ([0-9a-f]{8})\n?", file.read(64))
    except FileNotFoundError:
        return None
    if found is None or int(found[2], 16) != crc(found[1]):
        return None
    return int(found[1])


def segment_header(data, name):
    head = data[:SEGMENT_HEADER_BYTES]
    need(len(head) == SEGMENT_HEADER_BYTES and head[:10] == b"PARHJRNL\x01\0", f"{name}: not a journal segment of version 1")
    need(head[10:12] in (b"\0\0", b"\x01\0"), f"{name}: unknown flags")
    need(int.from_bytes(head[60:], "little") == crc(head[:60]), f"{name}: the header's checksum")
    return int.from_bytes(head[12:20], "little"), int.from_bytes(head[20:28], "little"), head[28:60], head[10] == 1


def whole_frame(data, at):
    """Sequence, hash of the record before, and body of a record with the right checksum; None where there is none."""
    if len(data) - at < FRAME_BYTES:
        return None
    length = int.from_bytes(data[at : at + 4], "little")
    end = at + FRAME_BYTES + length
    if length > RECORD_BYTES_MAX or end > len(data):
        return None
    if crc(data[at : at + 4], data[at + 8 : end]) != int.from_bytes(data[at + 4 : at + 8], "little"):
        return None
    return int.from_bytes(data[at + 8 : at + 16], "little"), data[at + 16 : at + 48], data[at + 48 : end]


def parse(raw, what):
    try:
        body = json.loads(raw)
    except (ValueError, UnicodeDecodeError) as error:
        raise Damage(f"{what}: {error}") from error
    need(isinstance(body, dict), f"{what}: not a JSON object")
    return body


def parse_record(raw, what):
    """A record's body: an object that says of which type it is. A snapshot stands for records that are not there."""
    body = parse(raw, what)
    need(isinstance(body.get("type"), str), f"{what}: it has no type")
    if body["type"] == "snapshot":
        raise NotForUs(f"{what}: a snapshot")
    return body


def judge(data, at, expected, previous):
    """What the bytes behind the last record are: "damaged" (a committed record), "cut short", "torn" or "doubtful"."""
    for offset in range(at, min(len(data), SEARCH_END) - FRAME_BYTES + 1):
        sequence = int.from_bytes(data[offset + 8 : offset + 16], "little")
        if expected <= sequence < expected + (1 << 20) + offset - at and (frame := whole_frame(data, offset)):
            try:
                joined = json.loads(frame[2]).get("joined", 0)
            except (ValueError, AttributeError):
                joined = 0
            if sequence == expected or sequence - joined > expected:
                return "damaged"
    head = data[at : at + FRAME_BYTES]
    if len(head) < FRAME_BYTES:
        return "cut short"
    continues = head[8:] == expected.to_bytes(8, "little") + previous
    length_there = (len(data) - at - FRAME_BYTES).to_bytes(8, "little")[:4]
    if continues and whole_frame(length_there + data[at + 4 :], 0):
        return "doubtful"  # only the length that it tells is wrong
    length = int.from_bytes(head[:4], "little")
    if not 0 < length <= RECORD_BYTES_MAX:
        return "torn"
    body = data[at + FRAME_BYTES : at + FRAME_BYTES + length]
    if len(body) < length:
        return "cut short" if continues else "torn"
    return "torn" if 0 in (body[0], body[-1]) or bytes(16) in body else "doubtful"


def check_events(journal):
    """The chain of events: each names the hash of the one before it, unless that may be among lost records."""
    last, seen = None, 0
    for record in journal.records:
        if record.body.get("type") == "event":
            previous = record.body.get("previous")
            is_behind_gap = any(seen < first and end < record.sequence for first, end in journal.lost)
            seen = record.sequence
            need(previous == last or is_behind_gap, f"event {record.sequence}: it does not name the event before it")
            last = derived(EVENT, record.raw).hex()
