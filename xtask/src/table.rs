//! Tables in the product's format: capital headings, two spaces between columns, no frame.

use comfy_table::{ContentArrangement, Table, presets};

/// A table of `rows` below `headings`, without a line break at its end.
pub(crate) fn table<const N: usize>(headings: [&str; N], rows: Vec<[String; N]>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    text.lines()
        .map(str::trim_end)
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::table;

    #[test]
    fn columns_are_aligned_without_a_frame() {
        let text = table(["NAME", "STATE"], vec![["etcd".into(), "built".into()]]);
        assert_eq!(text, "NAME  STATE\netcd  built");
    }
}
