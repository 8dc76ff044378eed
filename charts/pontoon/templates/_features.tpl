{{- /* A JSON list: the features that have a folder below generated/. */ -}}
{{- define "pontoon.knownFeatures" -}}
{{- $known := list -}}
{{- range $path, $_ := .Files.Glob "generated/*/crds.yaml" -}}
{{- $known = append $known (base (dir $path)) -}}
{{- end -}}
{{- toJson $known -}}
{{- end -}}

{{- /* A JSON list: the features that run. */ -}}
{{- define "pontoon.features" -}}
{{- $known := include "pontoon.knownFeatures" . | fromJsonArray -}}
{{- $names := join ", " $known | default "none in this chart" -}}
{{- $on := list -}}
{{- range $name, $switch := .Values.features -}}
{{- if not (has $name $known) -}}
{{- fail (printf "features.%s: there is no such feature; the features are: %s" $name $names) -}}
{{- end -}}
{{- if $switch.enabled -}}
{{- $on = append $on $name -}}
{{- end -}}
{{- end -}}
{{- if not .Values.features -}}
{{- $on = $known -}}
{{- else if not $on -}}
{{- fail (printf "features: all that are named are disabled; enable one, or leave features empty to run all: %s" $names) -}}
{{- end -}}
{{- toJson $on -}}
{{- end -}}
