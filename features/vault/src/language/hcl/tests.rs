use proptest::prelude::*;
use rstest::rstest;

use super::*;

/// The value of the only entry, set by the key `a`.
fn value(text: &str) -> Value {
    let tree = parse(&format!("a = {text}")).expect("reads");
    let [entry] = tree.entries.as_slice() else {
        panic!("one entry, not {:?}", tree.entries);
    };
    entry.value.clone()
}

fn refused(text: &str) -> String {
    parse(text).expect_err("refused").to_string()
}

fn whole(value: i64, text: &str) -> Value {
    Value::Number(Number::Whole {
        value,
        text: text.to_owned(),
    })
}

#[rstest]
#[case::plain(r#""x""#, "x")]
#[case::quotes_and_backslashes(r#""a\"b\\c""#, "a\"b\\c")]
#[case::control_characters(r#""\a\b\f\n\r\t\v""#, "\u{7}\u{8}\u{c}\n\r\t\u{b}")]
#[case::octal_and_hexadecimal(r#""\101\x42""#, "AB")]
#[case::code_points(r#""\u00e9\U0001F600""#, "é😀")]
#[case::a_comment_sign_is_text(r##""# // /* x""##, "# // /* x")]
#[case::interpolation_is_text(r#""a${b "c" {} \" }d\n""#, "a${b \"c\" {} \\\" }d\n")]
#[case::interpolation_spans_lines("\"${\n}\"", "${\n}")]
#[case::heredoc("<<EOF\none\n two\nEOF\n", "one\n two\n")]
#[case::heredoc_with_an_indented_end("<<EOF\none\n  EOF\n", "one\n  ")]
#[case::indented_heredoc("<<-EOF\n  one\n    two\n  EOF\n", "one\n  two\n")]
#[case::indented_heredoc_with_an_outdented_line("<<-EOF\n  one\n two\n  EOF\n", "  one\n two\n")]
#[case::empty_heredoc("<<EOF\nEOF\n", "")]
#[case::windows_lines("<<EOF\r\none\r\nEOF\r\n", "one\n")]
fn a_string_says(#[case] text: &str, #[case] meant: &str) {
    assert_eq!(value(text), Value::Text(meant.to_owned()));
}

#[rstest]
#[case::decimal("12", whole(12, "12"))]
#[case::negative("-3", whole(-3, "-3"))]
#[case::hexadecimal("0x1F", whole(31, "0x1F"))]
#[case::octal("017", whole(15, "017"))]
#[case::zero("0", whole(0, "0"))]
#[case::fraction("1.5", Value::Number(Number::Real(1.5)))]
#[case::exponent("2e3", Value::Number(Number::Real(2000.0)))]
#[case::yes("true", Value::Flag(true))]
#[case::no("false", Value::Flag(false))]
#[case::empty_list("[]", Value::List(vec![]))]
#[case::list_with_a_last_comma("[1, true,]", Value::List(vec![whole(1, "1"), Value::Flag(true)]))]
#[case::list_of_lists("[[1]]", Value::List(vec![Value::List(vec![whole(1, "1")])]))]
#[case::empty_object("{}", Value::Object(vec![]))]
fn a_value_is(#[case] text: &str, #[case] meant: Value) {
    assert_eq!(value(text), meant);
}

fn keys(entry: &Entry) -> Vec<&str> {
    entry.keys.iter().map(|key| &*key.text).collect()
}

#[test]
fn labels_are_quoted_or_bare() {
    let tree = parse("path \"a b\" c-d.e { x = 1, y = 2 z = 3 }").expect("reads");
    assert_eq!(keys(&tree.entries[0]), ["path", "a b", "c-d.e"]);
    let Value::Object(inner) = &tree.entries[0].value else {
        panic!("an object");
    };
    let inner: Vec<_> = inner.iter().flat_map(keys).collect();
    assert_eq!(inner, ["x", "y", "z"]);
    let span = tree.entries[0].keys[1].span.clone();
    assert_eq!(&tree.source[span], "\"a b\"");
}

#[test]
fn comments_of_all_three_kinds_are_skipped() {
    let tree = parse("# one\n// two { \"\na /* three\n = */ = /**/ 1 # end").expect("reads");
    assert_eq!(tree.entries.len(), 1);
}

#[rstest]
#[case::no_value("a =", "line 1, column 4: expected a value, found the end of the text")]
#[case::no_sign("a\nb 1", "line 2, column 3: expected `{`, found a number")]
#[case::a_bare_value("a = b", "line 1, column 5: expected a value, found the word b")]
#[case::labels_are_not_set("a b = 1", "line 1, column 5: expected `{`, found `=`")]
#[case::open_block(
    "a {\n  b = 1",
    "line 2, column 8: expected a key, found the end of the text"
)]
#[case::open_list(
    "a = [1",
    "line 1, column 7: expected `,` or `]`, found the end of the text"
)]
#[case::list_without_comma("a = [1 2]", "line 1, column 8: expected `,` or `]`, found a number")]
#[case::open_string(
    "a = \"b\n\"",
    "line 1, column 5: expected `\"` to end this string on the same line"
)]
#[case::open_comment("a = 1 /* b", "line 1, column 7: expected `*/` to end this comment")]
#[case::open_heredoc(
    "a = <<E\nb\n",
    "line 1, column 5: expected a line E to end this heredoc"
)]
#[case::heredoc_ended_by_the_end_of_text(
    "a = <<E\nE",
    "line 1, column 5: expected a line E to end this heredoc"
)]
#[case::heredoc_without_word("a = <<\n", "line 1, column 5: expected a word alone behind `<<`")]
#[case::set_twice("a = 1\n\"a\" = 2", "line 2, column 1: a is set twice")]
#[case::stray_sign("a = 1 }", "line 1, column 7: expected a key, found `}`")]
#[case::stray_character("a = 1; b = 2", "line 1, column 6: unexpected ';'")]
#[case::null_character(
    "a = \"\0\"",
    "line 1, column 6: '\\0' may stand in a policy only as an escape"
)]
#[case::big_number(
    "a = 9223372036854775808",
    "line 1, column 5: expected a number of at most 64 bits"
)]
#[case::octal_nine("a = 09", "line 1, column 5: expected a number of at most 64 bits")]
fn a_mistake_is_named_with_its_place(#[case] text: &str, #[case] message: &str) {
    assert_eq!(refused(text), message);
}

#[rstest]
#[case::unknown(r#"a = "\q""#)]
#[case::short(r#"a = "\u12""#)]
#[case::surrogate(r#"a = "\ud800""#)]
#[case::half_a_character(r#"a = "\xff""#)]
#[case::half_a_character_in_octal(r#"a = "\377""#)]
#[case::beyond_unicode(r#"a = "\U00110000""#)]
#[case::slash_in_json(r#"{"a": "\/"}"#)]
fn a_bad_escape_is_refused(#[case] text: &str) {
    assert!(refused(text).contains("expected one of"), "{text}");
}

#[test]
fn json_objects_of_objects_are_labelled_blocks() {
    let text = r#"{"path": {"a": {"x": [1]}, "b": {"x": "${\"", "y": null}}}"#;
    let tree = parse(text).expect("reads");
    assert_eq!(tree.form, Form::Json);
    let read: Vec<_> = tree.entries.iter().map(keys).collect();
    assert_eq!(read, [["path", "a"], ["path", "b"]]);
    let Value::Object(inner) = &tree.entries[1].value else {
        panic!("an object");
    };
    assert_eq!(inner[0].value, Value::Text("${\"".to_owned()));
    assert_eq!(inner[1].value, Value::Text(String::new()));

    let listed = parse(r#" {"path": [{"a": {}}, {"b": {},}],}"#).expect("reads");
    let read: Vec<_> = listed.entries.iter().map(keys).collect();
    assert_eq!(read, [["path", "a"], ["path", "b"]]);
}

#[rstest]
#[case::dropped_boolean(r#"{"a": [true]}"#, "Vault drops booleans")]
#[case::bare_key(r"{a: 1}", "expected a value, found the bare word a")]
#[case::comment("{ # x\n}", "unexpected '#'")]
#[case::behind_the_end("{} {}", "expected the end of the text, found `{`")]
#[case::missing_comma(r#"{"a": 1 "b": 2}"#, "expected `,` or `}`, found a string")]
#[case::open(r#"{"a": 1"#, "expected `,` or `}`, found the end of the text")]
#[case::leading_zero(r#"{"a": 01}"#, "expected a number")]
fn json_mistakes_are_named(#[case] text: &str, #[case] message: &str) {
    assert!(refused(text).contains(message), "{}", refused(text));
}

#[test]
fn depth_and_size_are_bounded() {
    let nested = |open: &str, close: &str, depth: usize| {
        format!("{}1{}", open.repeat(depth), close.repeat(depth))
    };
    assert!(parse(&format!("a = {}", nested("[", "]", MAX_DEPTH))).is_ok());
    let deep = format!("a = {}", nested("[", "]", MAX_DEPTH + 1));
    assert!(refused(&deep).contains("nested deeper than 32"));
    assert!(refused(&nested("{\"a\":", "}", 100_000 / 6)).contains("nested deeper than 32"));
    assert!(refused(&nested("a = {", "}", 10_000)).contains("nested deeper than 32"));
    let labelled = |labels: usize| format!("a {} {{}}", "b ".repeat(labels));
    assert!(parse(&labelled(MAX_DEPTH - 1)).is_ok());
    assert!(refused(&labelled(MAX_DEPTH)).contains("nested deeper than 32"));
    assert!(refused(&labelled(100_000)).contains("nested deeper than 32"));

    let filled = format!("a = 1{}", " ".repeat(MAX_BYTES - 5));
    assert!(parse(&filled).is_ok());
    assert!(refused(&format!("{filled} ")).contains("more than 1048576"));
    let json = format!("{{{}}}", " ".repeat(MAX_JSON_BYTES));
    assert!(refused(&json).contains("more than 262144"));
    let key = format!("{} = 1", "k".repeat(MAX_KEY_BYTES + 1));
    assert!(refused(&key).contains("more than 4096 bytes"));
}

/// Texts made of what means something to the language, rather than of any characters.
fn near_policies() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "path ",
        "\"",
        "\"a\"",
        "{",
        "}",
        "[",
        "]",
        "=",
        ",",
        ":",
        "\\",
        "\\u",
        "${",
        "\n",
        "\r\n",
        "<<E\n",
        "<<-E\n",
        "E\n",
        "  E\n",
        "#",
        "/*",
        "*/",
        "//",
        "1",
        "-",
        "0x",
        ".5",
        "e",
        "true",
        "null",
        "capabilities",
        " ",
        "é",
        "\u{e123}",
    ];
    proptest::collection::vec(proptest::sample::select(PARTS), 0..40)
        .prop_map(|parts| parts.concat())
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in any::<String>()) {
        let _ = parse(&text);
        let _ = parse(&format!("{{{text}"));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
        let _ = parse(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn no_near_policy_makes_it_panic(text in near_policies()) {
        let _ = parse(&text);
        let _ = parse(&format!("{{{text}"));
    }

    #[test]
    fn a_printed_string_reads_as_itself(text in any::<String>()) {
        let printed = crate::language::quoted(&text);
        prop_assert_eq!(value(&printed), Value::Text(text));
    }
}
