"""Puts all mutants of a source file into it at once, each behind a switch.

A mutant is one of those that cargo-mutants lists. Each is written beside the original as `if crate::mutant__(N) { changed } else { original }`,
so that one binary holds all of them. Comments mark what belongs to which mutant: an error of the compiler leads to it by its place.
"""

import re

import tree_sitter_rust
from tree_sitter import Language, Parser

PARSER = Parser(Language(tree_sitter_rust.language()))
COMPARISONS = {"==", "!=", "<", ">", "<=", ">="}
# Of edits of the same range, the order from the outermost to the innermost.
ORDER = {"FnValue": 0, "MatchArm": 1, "MatchArmGuard": 2, "StructField": 3, "UnaryOperator": 4, "BinaryOperator": 4}

# Added to the crate. With MUTANT_TRACE, notes in that file which mutants are reached.
SWITCH = """
#[doc(hidden)]
#[allow(missing_docs)]
pub fn mutant__(n: u32) -> bool {
    use std::sync::{OnceLock, atomic::{AtomicBool, Ordering}};
    static ON: OnceLock<(u32, Option<std::fs::File>)> = OnceLock::new();
    static SEEN: [AtomicBool; 8192] = [const { AtomicBool::new(false) }; 8192];
    let (on, trace) = ON.get_or_init(|| {
        let on = std::env::var("MUTANT").ok().and_then(|n| n.parse().ok()).unwrap_or(u32::MAX);
        let open = |path| std::fs::OpenOptions::new().append(true).create(true).open(path).ok();
        (on, std::env::var_os("MUTANT_TRACE").and_then(open))
    });
    if let Some(file) = trace && !SEEN[n as usize].swap(true, Ordering::Relaxed) {
        let _ = std::io::Write::write_all(&mut &*file, format!("{n}\\n").as_bytes());
    }
    *on == n
}
"""


class Source:
    """A file and its mutants, which have an `id` each."""

    def __init__(self, text, mutants):
        self.bytes = text.encode()
        self.lines = [0]
        for line in self.bytes.split(b"\n"):
            self.lines.append(self.lines[-1] + len(line) + 1)
        self.root = PARSER.parse(self.bytes).root_node
        self.edits = {}
        # Mutants for which there is no switch.
        self.unswitched = []
        for mutant in mutants:
            node = self.node_of(mutant)
            if node is None:
                self.unswitched.append(mutant)
            else:
                self.edits.setdefault((node.start_byte, -node.end_byte, ORDER[mutant["genre"]]), (node, []))[1].append(mutant)

    def offset(self, place):
        start, end = self.lines[place["line"] - 1 : place["line"] + 1]
        return start + len(self.bytes[start:end].decode()[: place["column"] - 1].encode())

    def node_of(self, mutant):
        """The node that a mutant changes; None where it cannot be switched, as in a constant."""
        if mutant["function"] is None:
            return None
        start, end = (self.offset(mutant["span"][at]) for at in ("start", "end"))
        node, genre = self.root.descendant_for_byte_range(start, max(start, end - 1)), mutant["genre"]

        def above(*kinds):
            found = node
            while found is not None and found.type not in kinds:
                found = found.parent
            return found

        if genre == "BinaryOperator":
            found = node.parent
            return found if found.type in ("binary_expression", "compound_assignment_expr") else None
        if genre == "UnaryOperator":
            found = node if node.is_named else node.parent
            return found if found.type == "unary_expression" else None
        if genre == "FnValue":
            function = above("function_item")
            is_const = any(b"const" in c.text for c in function.children if c.type == "function_modifiers")
            return None if is_const or "impl " in (mutant["function"]["return_type"] or "") else function.child_by_field_name("body")
        if genre == "MatchArm":
            return above("match_arm").child_by_field_name("pattern")
        if genre == "MatchArmGuard":
            condition = above("match_pattern").child_by_field_name("condition")
            return condition if condition is not None and condition.type not in ("let_condition", "let_chain") else None
        if genre == "StructField":
            return above("field_initializer", "shorthand_field_initializer")
        return None

    def render(self, dropped):
        """The file with every mutant that is not dropped."""
        self.todo = [(key, node, [m for m in mutants if m["id"] not in dropped]) for key, (node, mutants) in sorted(self.edits.items(), key=lambda e: e[0])]
        return self.range(0, len(self.bytes), 0)

    def range(self, start, end, number):
        """A range with the edits in it, from this number on."""
        out, at = [], start
        for i in range(number, len(self.todo)):
            (from_, to, _), node, mutants = self.todo[i]
            if from_ >= end:
                break
            if from_ < at or -to > end:
                continue
            out.append(self.bytes[at:from_].decode())
            inner = lambda a, b, i=i: self.range(a, b, i + 1)
            out.append(self.switched(node, mutants, inner) if mutants else inner(from_, -to))
            at = -to
        out.append(self.bytes[at:end].decode())
        return "".join(out)

    def switched(self, node, mutants, inner):
        """A node with its mutants. `inner` renders a range in it."""
        genre, ids = mutants[0]["genre"], ",".join(str(m["id"]) for m in mutants)
        whole, is_on = (lambda n: inner(n.start_byte, n.end_byte)), (lambda m: f"crate::mutant__({m['id']})")
        marked = lambda ids, text: f"/*<{ids}*/{text}/*>*/"

        def choice(change, original):
            cases = [f"if {is_on(m)} {{ {marked(m['id'], change(m['replacement']))} }}" for m in mutants]
            return marked(ids, " else ".join([*cases, f"{{ {original} }}"]))

        if genre == "FnValue":
            returns = "".join(marked(m["id"], f"if {is_on(m)} {{ return {m['replacement']}; }}") for m in mutants)
            return "{" + returns + inner(node.start_byte + 1, node.end_byte)
        if genre == "MatchArm":
            condition, is_off = node.child_by_field_name("condition"), marked(ids, f"!{is_on(mutants[0])}")
            if condition is None:
                return f"{whole(node)} if {is_off}"
            return f"{inner(node.start_byte, condition.start_byte)}{is_off} && ({whole(condition)})"
        if genre == "MatchArmGuard":
            guard = f"({whole(node)})"
            for m in mutants:
                guard = f"({is_on(m)} || {guard})" if m["replacement"] == "true" else f"(!{is_on(m)} && {guard})"
            return marked(ids, guard)
        if genre == "StructField":
            is_short = node.type == "shorthand_field_initializer"
            field = (node if is_short else node.child_by_field_name("field")).text.decode()
            value = field if is_short else whole(node.child_by_field_name("value"))
            base = [c for c in node.parent.children if c.type == "base_field_initializer"][0].text.decode().removeprefix("..")
            name = node.parent.parent.child_by_field_name("name").text.decode()
            return f"{field}: " + choice(lambda _: f"let base: {name} = {base}; base.{field}", value)
        if genre == "UnaryOperator":
            operator = node.children[0]
            operand = inner(operator.end_byte, node.end_byte)
            return f"({choice(lambda _: operand, operator.text.decode() + operand)})"
        left, right = (whole(node.child_by_field_name(side)) for side in ("left", "right"))
        operator = node.child_by_field_name("operator").text.decode()
        if node.type == "compound_assignment_expr":
            return f"({choice(lambda new: f'{left} {new} {right}', f'{left} {operator} {right}')})"
        if operator in ("&&", "||"):
            chosen = choice(lambda new: f"left__ {new} {right}", f"left__ {operator} {right}")
            return marked(ids, f"({{ let left__: bool = {left}; {chosen} }})")
        by = "&" if operator in COMPARISONS else ""
        chosen = choice(lambda new: f"left__ {new} right__", f"left__ {operator} right__")
        return marked(ids, f"(match ({by}({left}), {by}({right})) {{ (left__, right__) => {chosen} }})")


def marks(text):
    """What the comments in a rendered file mark: start, end, ids; in bytes."""
    found, open_ = [], []
    for mark in re.finditer(rb"/\*(<([0-9,]+)|>)\*/", text):
        if mark.group(2):
            open_.append((mark.start(), [int(n) for n in mark.group(2).split(b",")]))
        elif open_:
            start, ids = open_.pop()
            found.append((start, mark.end(), ids))
    return found
