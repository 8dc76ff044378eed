//! The flags of `cargo xtask world migrate`.

use crate::verdict::Error;

/// How the world of `migrate` differs from the usual one.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct MigrateFlags {
    /// migrate: time runs so many times as fast in Pontoon, the simulators and EC2 [default: 1]
    #[arg(long, value_name = "F", value_parser = clap::value_parser!(u32).range(1..=1000))]
    factor: Option<u32>,
    /// migrate: a third cluster ALT, with the authority and the tokens of SRC
    #[arg(long)]
    pub(super) third: bool,
    /// migrate: the replicas of the StatefulSet [default: 3]
    #[arg(long, value_name = "R", value_parser = clap::value_parser!(u32).range(1..=40))]
    replicas: Option<u32>,
}

impl MigrateFlags {
    /// Refuses the flags for another feature, where they would have no effect.
    pub(crate) fn fit(&self, feature: &str) -> Result<(), Error> {
        if feature == "migrate" || *self == Self::default() {
            return Ok(());
        }
        Err(Error::new(format!(
            "--factor, --third and --replicas are for the world of migrate; the world of {feature} \
             has no flags"
        )))
    }

    pub(super) fn factor(&self) -> u32 {
        self.factor.unwrap_or(1)
    }

    pub(super) fn replicas(&self) -> u32 {
        self.replicas.unwrap_or(3)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::MigrateFlags;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        flags: MigrateFlags,
    }

    fn parsed(flags: &[&str]) -> Result<MigrateFlags, String> {
        let arguments = ["world"].iter().chain(flags);
        let command = Command::try_parse_from(arguments);
        command
            .map(|command| command.flags)
            .map_err(|error| error.to_string())
    }

    #[rstest]
    #[case::none(&[], 1, 3, false)]
    #[case::all(&["--factor", "20", "--third", "--replicas=5"], 20, 5, true)]
    fn flags_have_defaults(
        #[case] flags: &[&str],
        #[case] factor: u32,
        #[case] replicas: u32,
        #[case] third: bool,
    ) {
        let flags = parsed(flags).unwrap();
        let read = (flags.factor(), flags.replicas(), flags.third);
        assert_eq!(read, (factor, replicas, third));
    }

    #[rstest]
    #[case::time_stands_still(&["--factor=0"], "0 is not in 1..=1000")]
    #[case::a_part_of_one(&["--factor=0.5"], "invalid value '0.5' for '--factor <F>'")]
    #[case::no_pods(&["--replicas", "0"], "0 is not in 1..=40")]
    #[case::a_value_of_a_switch(&["--third=no"], "unexpected value 'no' for '--third'")]
    fn a_wrong_flag_is_refused_with_its_limits(#[case] flags: &[&str], #[case] part: &str) {
        let error = parsed(flags).unwrap_err();
        assert!(error.contains(part), "{error}");
    }

    #[rstest]
    #[case::no_flag("probe", &[], true)]
    #[case::its_own("migrate", &["--third"], true)]
    #[case::of_another("probe", &["--third"], false)]
    #[case::even_the_default("probe", &["--factor=1"], false)]
    fn only_this_world_has_flags(
        #[case] feature: &str,
        #[case] flags: &[&str],
        #[case] fits: bool,
    ) {
        assert_eq!(parsed(flags).unwrap().fit(feature).is_ok(), fits);
    }
}
