use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use rstest::rstest;

use super::super::csv;
use super::*;

/// What a table says, written as CSV: its header is line 1.
fn table(text: &str) -> Tenants {
    tenants(&csv::rows(text, 99).unwrap())
}

fn row(cells: Vec<(&str, Cell)>) -> Row {
    Row {
        place: Place::Row(1),
        cells: (cells.into_iter())
            .map(|(column, cell)| (column.into(), cell))
            .collect(),
    }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

#[test]
fn rows_of_one_name_are_one_tenant_with_several_domains() {
    let all = table(
        "name,domain,enabled\n\
         acme,b.example.com,\n\
         beta,c.example.com,\n\
         \x20acme ,A.example.com.,f\n\
         acme,a.example.com,\n",
    );
    assert_eq!((all.rows, all.count, all.errors.len()), (4, 2, 0));
    let acme = &all.good["acme"];
    assert_eq!(acme.domains, ["b.example.com", "a.example.com"]);
    assert_eq!(acme.enabled, Some(false));
    assert_eq!(all.good["beta"].enabled, None);
}

#[test]
fn every_column_has_its_place() {
    let all = table(
        "name,domain,enabled,connection_group_id,distribution_id,\
         param_Color,param_empty,tag_team,tag_none,note\n\
         acme,a.example.com,YES, cg_1 ,E1, red ,,web,,x\n",
    );
    let pair = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
    let acme = Tenant {
        name: "acme".into(),
        domains: vec!["a.example.com".into()],
        enabled: Some(true),
        connection_group_id: Some("cg_1".into()),
        distribution_id: Some("E1".into()),
        parameters: pair("Color", " red "),
        tags: pair("team", "web"),
    };
    assert_eq!(all.good["acme"], acme);
}

#[test]
fn a_cell_may_hold_several_domains() {
    let list = ["a.example.com", "b.example.com"].map(str::to_owned);
    let cells = vec![
        ("name", text("acme")),
        ("domain", Cell::List(list.to_vec())),
    ];
    assert_eq!(tenants(&[row(cells)]).good["acme"].domains, list);
}

#[rstest]
#[case::list("enabled", Cell::List(vec![]), "the column enabled holds a list; store text there")]
#[case::map(
    "enabled",
    Cell::Other("a map"),
    "the column enabled holds a map; store text there"
)]
#[case::domain(
    "domain",
    Cell::Other("bytes"),
    "the column domain holds bytes; store text there"
)]
fn what_is_no_text_is_a_wrong_row(#[case] column: &str, #[case] cell: Cell, #[case] said: &str) {
    let mut cells = vec![("name", text("acme")), ("domain", text("a.example.com"))];
    cells.push((column, cell));
    let all = tenants(&[row(cells)]);
    assert_eq!(all.errors, [format!("tenant acme: {said}")]);
}

#[rstest]
#[case::no_name(
    "name,domain\n,a.x.com",
    "line 2: it names no tenant; fill in the column name"
)]
#[case::blank_name("name,domain\n ,a.x.com", "line 2: it names no tenant")]
#[case::bad_name(
    "name,domain\nAcme_1,a.x.com",
    "line 2 (tenant Acme_1): no object can have its name; use"
)]
#[case::no_domain(
    "name,domain\nacme,",
    "line 2 (tenant acme): it has no domain; fill in"
)]
#[case::blank_domain("name,domain\nacme, ", "line 2 (tenant acme): it has no domain")]
#[case::bad_domain(
    "name,domain\nacme,nonsense",
    "line 2 (tenant acme): the domain \"nonsense\" is none; write"
)]
#[case::bad_flag(
    "name,domain,enabled\nacme,a.x.com,maybe",
    "line 2 (tenant acme): the column enabled says \"maybe\"; write true or false"
)]
#[case::contradicting_flags(
    "name,domain,enabled\nacme,a.x.com,true\nacme,b.x.com,0",
    "line 3 (tenant acme): its rows contradict each other in the column enabled: \"false\", \"true\""
)]
#[case::contradicting_texts(
    "name,domain,distribution_id\nacme,a.x.com,E1\nacme,b.x.com,E2",
    "line 3 (tenant acme): its rows contradict each other in the column distribution_id: \"E1\", \"E2\""
)]
#[case::contradicting_parameters(
    "name,domain,param_p\nacme,a.x.com,x\nacme,b.x.com,y",
    "line 3 (tenant acme): its rows contradict each other in the column param_p: \"x\", \"y\""
)]
#[case::bad_parameter(
    "name,domain,param_a.b\nacme,a.x.com,x",
    "line 2 (tenant acme): no parameter can be called \"a.b\"; rename the column"
)]
#[case::reserved_tag(
    "name,domain,tag_aws:x\nacme,a.x.com,y",
    "line 2 (tenant acme): no tag's key may begin with aws:; rename the column"
)]
fn a_wrong_row_says_where_what_and_what_to_do(#[case] csv: &str, #[case] said: &str) {
    let all = table(csv);
    assert_eq!(all.errors.len(), 1, "{:?}", all.errors);
    assert!(all.errors[0].starts_with(said), "{}", all.errors[0]);
    assert!(all.good.is_empty());
}

#[test]
fn a_wrong_row_spoils_its_tenant_and_no_other() {
    let all = table("name,domain\nacme,a.x.com\nacme,nonsense\nBeta,b.x.com\ngamma,c.x.com\n");
    assert_eq!(all.good.keys().collect::<Vec<_>>(), ["gamma"]);
    assert_eq!((all.count, all.errors.len()), (3, 2));
    assert!(all.has("acme") && all.has("beta") && all.has("gamma"));
    assert!(!all.has("delta"));
}

/// Rows of a database, each with a name, a domain and a distribution; an empty cell is none.
fn database(rows: &[[&str; 3]]) -> Vec<Row> {
    let columns = [NAME, DOMAIN, DISTRIBUTION];
    let row = |(at, cells): (usize, &[&str; 3])| {
        let cells = columns.into_iter().zip(*cells);
        let cells = cells.filter(|(_, cell)| !cell.is_empty());
        Row {
            place: Place::Row(at + 1),
            ..row(cells.map(|(column, cell)| (column, text(cell))).collect())
        }
    };
    rows.iter().enumerate().map(row).collect()
}

#[test]
fn wrong_rows_of_a_database_are_told_by_tenant_each_thing_once() {
    let all = tenants(&database(&[
        ["shop", "nonsense", ""],
        ["", "x.x.com", ""],
        ["acme", "a.x.com", "E2"],
        ["acme", "b.x.com", "E3"],
        ["shop", "nonsense", ""],
        [" ", "y.x.com", ""],
        ["acme", "c.x.com", "E1"],
        ["acme", "", "E9"],
    ]));
    let said = [
        "2 rows name no tenant; fill in the column name",
        "tenant acme: it has no domain; fill in the column domain",
        "tenant acme: its rows contradict each other in the column distribution_id: \"E1\", \"E2\", \
         \"E3\"; let them agree",
        "tenant shop: the domain \"nonsense\" is none; write a host name such as www.example.com",
    ];
    assert_eq!(all.errors, said);
    assert_eq!((all.nameless, all.count), (2, 2));
}

#[test]
fn of_a_set_with_several_wrong_domains_always_the_same_is_told() {
    let said = |domains: [&str; 2]| {
        let domains = domains.map(str::to_owned).to_vec();
        let cells = vec![(NAME, text("acme")), (DOMAIN, Cell::List(domains))];
        tenants(&[row(cells)]).errors
    };
    assert_eq!(said(["b", "a"]), said(["a", "b"]));
}

#[test]
fn a_name_that_is_no_text_names_nobody() {
    let cells = vec![(NAME, Cell::Other("a map")), (DOMAIN, text("a.x.com"))];
    assert_eq!(tenants(&[row(cells)]).nameless, 1);
}

#[test]
fn a_tenant_can_be_refused_later() {
    let mut all = table("name,domain\nacme,a.x.com");
    all.refuse("acme", "too much");
    all.refuse("acme", "too much");
    assert!(all.good.is_empty() && all.has("acme"));
    assert_eq!(all.errors, ["tenant acme: too much"]);
}

#[test]
fn a_long_value_is_quoted_in_part() {
    let long = "x".repeat(10_000);
    let all = table(&format!("name,domain\nacme,{long}\n{long},a.x.com"));
    assert!(all.errors.iter().all(|error| error.len() < 400));
    assert_eq!(all.errors.len(), 2);
}

#[rstest]
#[case::both(vec!["domain", "id", "name"], None)]
#[case::no_name(vec!["domain"], Some("no column name"))]
#[case::no_domain(vec!["name", "Domain"], Some("no column domain"))]
#[case::twice(vec!["name", "domain", "name"], Some("the column name twice"))]
#[case::others_may_repeat(vec!["name", "id", "id", "domain"], None)]
fn a_table_needs_its_columns(#[case] columns: Vec<&str>, #[case] wrong: Option<&str>) {
    match (check_columns(columns), wrong) {
        (Ok(()), None) => {}
        (Err(said), Some(wrong)) => assert!(said.contains(wrong), "{said}"),
        other => panic!("{other:?}"),
    }
}

fn any_row() -> impl Strategy<Value = Row> {
    let column = prop_oneof![
        Just("name".to_owned()),
        Just("domain".to_owned()),
        Just("enabled".to_owned()),
        "(param|tag)_[a.]?",
    ];
    let cell = prop_oneof![
        "[abA]{0,4}".prop_map(Cell::Text),
        "[ab]\\.[ab]{0,2}".prop_map(Cell::Text),
        vec("[ab]\\.[ab]{0,2}", 0..3).prop_map(Cell::List),
        Just(Cell::Other("a map")),
    ];
    vec((column, cell), 0..6).prop_map(|cells| {
        row((cells.iter())
            .map(|(column, cell)| (&**column, cell.clone()))
            .collect())
    })
}

/// A row of one of two tenants, or of none, that may be wrong or contradict others.
fn speaking_row() -> impl Strategy<Value = Row> {
    let cells = (
        select(&["acme", "shop", ""][..]),
        select(&["a.x.com", "b.x.com", "nonsense", ""][..]),
        select(&["true", "f", "maybe", ""][..]),
        select(&["x", "y", "z", ""][..]),
    );
    cells.prop_map(|(name, domain, enabled, parameter)| {
        let cells = [
            (NAME, name),
            (DOMAIN, domain),
            (ENABLED, enabled),
            ("param_p", parameter),
        ];
        let cells = cells.into_iter().filter(|(_, cell)| !cell.is_empty());
        row(cells.map(|(column, cell)| (column, text(cell))).collect())
    })
}

proptest! {
    #[test]
    fn a_database_may_give_its_rows_in_any_order(
        (one, other) in vec(speaking_row(), 0..6)
            .prop_flat_map(|rows| (Just(rows.clone()), Just(rows).prop_shuffle())),
    ) {
        let (one, other) = (tenants(&one), tenants(&other));
        prop_assert_eq!(one.errors, other.errors);
        prop_assert_eq!(one.wrong, other.wrong);
    }

    #[test]
    fn every_named_row_is_present_and_every_good_tenant_can_be_made(
        rows in vec(any_row(), 0..8),
    ) {
        let all = tenants(&rows);
        for name in rows.iter().filter_map(named) {
            prop_assert!(all.has(&name.to_ascii_lowercase()), "{}", name);
        }
        for tenant in all.good.values() {
            prop_assert!(valid::is_object_name(&tenant.name));
            prop_assert!(!tenant.domains.is_empty());
            prop_assert!(tenant.domains.iter().all(|one| valid::is_domain(one)));
        }
        prop_assert!(all.count <= all.rows);
    }
}
