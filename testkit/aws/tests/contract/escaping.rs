//! Any text in the emulator's XML is read back unchanged by another parser.

use aws_emulator::xml::Element;
use proptest::prelude::*;

/// Characters that XML 1.0 does not allow, even escaped.
fn is_forbidden(character: char) -> bool {
    matches!(character, '\0'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}')
}

proptest! {
    #[test]
    fn text_is_read_back_unchanged(text in any::<String>(), space in "[a-z<>&\"' ]{1,20}") {
        let document = Element::new("Root").xmlns(&space).leaf("Leaf", &text).document();
        let parsed = roxmltree::Document::parse(&document).expect("well-formed XML");
        let leaf = parsed.root_element().first_element_child().expect("the leaf");
        let expected: String = text.chars().map(|c| if is_forbidden(c) { '\u{fffd}' } else { c }).collect();
        prop_assert_eq!(leaf.text().unwrap_or_default(), expected);
        prop_assert_eq!(leaf.tag_name().namespace(), Some(space.as_str()));
    }

    #[test]
    fn markup_in_text_makes_no_element(text in "[<>&\"'/a-b\r\n\t!\\[\\]-]{0,40}") {
        let document = Element::new("Root").leaf("Leaf", &text).document();
        let parsed = roxmltree::Document::parse(&document).expect("well-formed XML");
        prop_assert_eq!(parsed.descendants().filter(roxmltree::Node::is_element).count(), 2);
        let leaf = parsed.root_element().first_element_child().expect("the leaf");
        prop_assert_eq!(leaf.text().unwrap_or_default(), text);
    }
}
