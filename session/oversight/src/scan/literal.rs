//! Literals: whether a text is a random one, or a placeholder, a word, an expression.

/// Texts in literals that stand for a secret, in lower case.
const PLACEHOLDERS: [&str; 20] = [
    "example",
    "sample",
    "placeholder",
    "your-",
    "your_",
    "yourkey",
    "yourtoken",
    "changeme",
    "change-me",
    "change_me",
    "xxxx",
    "****",
    "....",
    "redacted",
    "dummy",
    "replace",
    "insert",
    "<",
    "${",
    "{{",
];

/// More of them, in literals that nothing but their name makes secrets.
const WORDS: [&str; 30] = [
    "fake",
    "test",
    "mock",
    "todo",
    "secret",
    "password",
    "passwd",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "foobar",
    "invalid",
    "default",
    "123456",
    "abcdef",
    "qwerty",
    "process.env",
    "environ",
    "getenv",
    "env.",
    "config.",
    "self.",
    "this.",
    "localhost",
    "://",
    "null",
    "undefined",
    "value",
    "%s",
];

/// The entropy of a text, in bits per byte.
pub fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    text.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let total = text.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / total);
    shares.map(|share| -share * share.log2()).sum()
}

/// True if a text only stands for a secret.
pub fn is_placeholder(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    contains_one(&lower, &PLACEHOLDERS) || has_run(&lower, 8) || is_sequence(&lower)
}

/// True if a quoted literal looks random: neither words nor a number, path, version or identifier.
pub fn is_random(text: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| text.iter().any(is);
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    let is_path = matches!(text.first(), Some(b'/' | b'.' | b'$' | b'%' | b'#' | b'@' | b'-')) || text.contains(&b'(');
    is_mixed
        && !is_path
        && !is_guid(text)
        && text.is_ascii()
        && !contains_one(&text.to_ascii_lowercase(), &WORDS)
        && !is_of_words(text)
}

/// True if a setting's value looks random. Without quotes it may be anything, so that short ones have to be less like words.
pub fn is_encoded(text: &[u8]) -> bool {
    is_random(text) && (text.len() >= 16 || text.iter().any(u8::is_ascii_punctuation))
}

/// True if the password of a URL is one that somebody would keep to themselves.
pub fn is_password(text: &[u8]) -> bool {
    let lower = text.to_ascii_lowercase();
    const COMMON: [&str; 13] =
        ["pass", "secret", "hunter2", "postgres", "mysql", "admin", "root", "guest", "user", "token", "test", "123", "pwd"];
    !contains_one(&lower, &COMMON) && lower.iter().any(|byte| !byte.is_ascii_lowercase())
}

/// True if a text consists of words and small numbers, as identifiers do: `access_token_v2`, `KeyFromFile`, `com.example.Key1`.
fn is_of_words(text: &[u8]) -> bool {
    let parts = text.split(|byte| !byte.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    let (mut words, mut others) = (0usize, 0usize);
    for part in parts {
        let digits = part.iter().filter(|byte| byte.is_ascii_digit()).count();
        // A word is followed by its number, if it has one.
        let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_word = letters + digits == part.len() && digits <= 4 && is_pronounced(&part[..letters]);
        if is_word { words += 1 } else { others += 1 }
    }
    words > 0 && others == 0
}

/// True if letters are words in one or in camel case: a capital only at the beginning of a word of three letters or more, or all of them.
fn is_pronounced(letters: &[u8]) -> bool {
    let is_vowel = |byte: &u8| b"aeiouyAEIOUY".contains(byte);
    let capitals = letters.iter().filter(|byte| byte.is_ascii_uppercase()).count();
    let cased = capitals == letters.len() || capitals * 3 <= letters.len();
    let longest = letters.split(|byte| is_vowel(byte)).map(<[u8]>::len).max().unwrap_or_default();
    cased && longest <= 4
}

/// True for the hexadecimal groups of a GUID, which names things.
fn is_guid(text: &[u8]) -> bool {
    let groups = text.rsplit(|byte| !byte.is_ascii_hexdigit()).map(<[u8]>::len).filter(|length| *length > 0);
    groups.take(5).eq([12, 4, 4, 4, 8])
}

fn contains_one(text: &[u8], parts: &[&str]) -> bool {
    parts.iter().any(|part| text.windows(part.len()).any(|window| window == part.as_bytes()))
}

/// True if one byte stands so often in a row.
fn has_run(text: &[u8], length: usize) -> bool {
    text.chunk_by(|a, b| a == b).any(|run| run.len() >= length)
}

/// True if the text counts up through digits or letters over twelve of them.
fn is_sequence(text: &[u8]) -> bool {
    let follows =
        |a: &u8, b: &u8| a.checked_add(1) == Some(*b) || (*a == b'9' && matches!(*b, b'0' | b'a')) || (*a == b'z' && *b == b'0');
    text.chunk_by(follows).any(|run| run.len() >= 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_texts_have_more_entropy_than_words() {
        assert_eq!((entropy(b""), entropy(b"aaaa"), entropy(b"abab")), (0.0, 0.0, 1.0));
        assert!(entropy(b"kT9vQ2mZ8xW4") > 3.5 && entropy(b"passpasspass") < 2.0);
    }

    #[test]
    fn placeholders_words_and_expressions_are_no_secrets() {
        for text in
            ["AKIAIOSFODNN7EXAMPLE", "your-api-key-1", "xxxxxxxx", "${API_KEY}", "<token>", "0123456789abcdef", "aaaaaaaaaa1"]
        {
            assert!(is_placeholder(text.as_bytes()), "{text}");
        }
        for text in [
            "access-key-v2",
            "KeyFromFile2",
            "getenv(X1)",
            "/etc/key1",
            "user.name.1",
            "process.env.K1",
            "onlyletters",
            "{262E99C9-6160-4871-ACEC-4E61736B6F21}",
            "1234567890",
        ] {
            assert!(!is_random(text.as_bytes()), "{text}");
        }
        for text in ["kT9vQ2mZ8xW4", "9f86d081884c7d65", "p4ss-W0rd!9zQk2"] {
            assert!(is_random(text.as_bytes()) && !is_placeholder(text.as_bytes()), "{text}");
        }
    }
}
