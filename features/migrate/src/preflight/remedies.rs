//! What helps when a check fails: a command or a field.

use api::migrate::CheckId;

use super::survey::Survey;

/// The remedy of a check.
pub(super) fn remedy(id: CheckId, survey: &Survey) -> String {
    let spec = &survey.spec;
    let set = &spec.stateful_set_name;
    let (source, destination) = (&spec.source_namespace, &spec.dest_namespace);
    let acknowledge = format!("or add {id} to spec.acknowledge");
    match id {
        CheckId::Kubeconfig => format!(
            "pontoon migrate kubeconfig --context <context> --apply -n {}",
            survey.namespace
        ),
        CheckId::Permissions => "kubectl apply the shipped role of that side".to_owned(),
        CheckId::ClusterIdentity => {
            "set spec.sourceCluster and spec.destCluster to the right Secrets".to_owned()
        }
        CheckId::Lock => {
            "finish the other migration, or run pontoon migrate audit --release".to_owned()
        }
        CheckId::SourceStatefulSet => format!("kubectl -n {source} get statefulset {set}"),
        CheckId::Namespaces => format!("kubectl create namespace {destination}"),
        CheckId::Ordinals => "set spec.strategy to OrphanAdopt, or upgrade the cluster".to_owned(),
        CheckId::Rollout => format!("kubectl -n {source} rollout status statefulset/{set}"),
        CheckId::Health => {
            format!("kubectl -n {source} describe pod, {acknowledge} or {id}/<ordinal>")
        }
        CheckId::ClaimSet => format!("kubectl -n {source} describe pvc"),
        CheckId::ForeignConsumer => format!("kubectl -n {source} delete pod <consumer>"),
        CheckId::ExtraVolumes => format!("move that data by hand, {acknowledge}"),
        CheckId::VolumeType => "leave this StatefulSet out: only EBS volumes move".to_owned(),
        CheckId::VolumeState => "aws ec2 describe-volumes --volume-ids <id>".to_owned(),
        CheckId::Ec2Access => "attach the shipped IAM policy to the role of Pontoon".to_owned(),
        CheckId::DestAccount => {
            "set spec.destCluster to a cluster in the account and region of the volumes".to_owned()
        }
        CheckId::Zone | CheckId::AttachLimit => "add nodes in that zone".to_owned(),
        CheckId::DestDriver => "install the aws-ebs-csi-driver at the destination".to_owned(),
        CheckId::DestStatefulSet => format!("kubectl -n {destination} delete statefulset {set}"),
        CheckId::DestClaims => format!("kubectl -n {destination} delete pvc <claim>"),
        CheckId::Names => "rename, or split the StatefulSet".to_owned(),
        CheckId::Dependencies => format!("create them at the destination, {acknowledge}"),
        CheckId::Admission => {
            format!("change quota, PodSecurity or webhook of namespace {destination}")
        }
        CheckId::Owner => format!("suspend its sync, {acknowledge}"),
        CheckId::Autoscaler => format!("suspend it, {acknowledge}"),
        CheckId::Resize => "wait until it is over, then raise spec.retry".to_owned(),
        CheckId::DormantClaims => "set spec.dormantClaims to Move or Leave".to_owned(),
        CheckId::HeadlessService => {
            format!("create it in namespace {destination}, set spec.force, {acknowledge}")
        }
        CheckId::StorageClass => {
            format!("create it, set spec.storageClassMapping or spec.force, {acknowledge}")
        }
        CheckId::KmsKey => {
            format!("grant the key to the destination's nodes, set spec.force, {acknowledge}")
        }
        CheckId::VolumeTags => format!("set spec.fence or spec.force, {acknowledge}"),
        CheckId::DisruptionBudget => format!("relax the budget, set spec.force, {acknowledge}"),
        CheckId::Policies
        | CheckId::Backups
        | CheckId::DestPdb
        | CheckId::AppSpan
        | CheckId::SlowStart => String::new(),
    }
}
