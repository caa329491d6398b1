{{- define "dovetail.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "dovetail.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{- define "dovetail.selectorLabels" -}}
app.kubernetes.io/name: {{ include "dovetail.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "dovetail.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "dovetail.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* metadata of everything: labels, and annotations where there are any */}}
{{- define "dovetail.metadata" -}}
labels:
  {{- include "dovetail.labels" . | nindent 2 }}
{{- with .Values.additionalAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "dovetail.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "dovetail.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "dovetail.image" -}}
{{- $image := .Values.controller.image }}
{{- if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* A setting under its name of today, or of Karpenter 0.19 (settings.aws.X), or of 0.5 (controller.X); quotes that
     `aws --output json` leaves around a value are taken off. */}}
{{- define "dovetail.setting" -}}
{{- $aws := default dict (get .root.Values.settings "aws") }}
{{- $old := default (get .root.Values.controller .name) (get $aws (default .name .aws)) }}
{{- default $old (get .root.Values.settings .name) | toString | trimAll "\"" | replace "<nil>" "" }}
{{- end }}

{{/* What controller.env says of a variable, in words; empty where it does not. */}}
{{- define "dovetail.given" -}}
{{- $given := "" }}
{{- range .root.Values.controller.env }}
{{- if eq .name $.variable }}
{{- if hasKey . "valueFrom" }}
{{- fail (printf "controller.env takes %s from elsewhere, where the chart cannot follow: say it in fence.%s" $.variable $.value) }}
{{- end }}
{{- $given = .value | toString | replace "<nil>" "" }}
{{- end }}
{{- end }}
{{- $given }}
{{- end }}

{{/* One half of the Lease's name: by fence.<value> or by controller.env's variable, which have to agree. */}}
{{- define "dovetail.ofLease" -}}
{{- $given := include "dovetail.given" . }}
{{- $own := get .root.Values.fence .value | default "" | toString }}
{{- if and $own $given (ne $own $given) }}
{{- fail (printf "there is one Lease, and it is said twice: fence.%s is %s, %s in controller.env is %s" .value (quote $own) .variable (quote $given)) }}
{{- end }}
{{- $own | default $given | default .otherwise }}
{{- end }}

{{- define "dovetail.lease" -}}
{{- include "dovetail.ofLease" (dict "root" . "value" "lease" "variable" "LEADER_ELECTION_NAME" "otherwise" "karpenter-leader-election") }}
{{- end }}

{{- define "dovetail.leaseNamespace" -}}
{{- include "dovetail.ofLease" (dict "root" . "value" "leaseNamespace" "variable" "LEADER_ELECTION_NAMESPACE" "otherwise" .Release.Namespace) }}
{{- end }}

{{- define "dovetail.fenceName" -}}
{{- printf "%s-fence" (include "dovetail.fullname" .) }}
{{- end }}

{{- define "dovetail.clusterName" -}}
{{- include "dovetail.setting" (dict "root" . "name" "clusterName") }}
{{- end }}

{{- define "dovetail.gates" -}}
{{- $gates := list }}
{{- range $name, $on := . }}
{{- $gates = append $gates (printf "%s=%t" (title $name) $on) }}
{{- end }}
{{- join "," $gates }}
{{- end }}

{{/* What is said of values in the spelling of older charts; empty where there are none. */}}
{{- define "dovetail.oldSpellings" -}}
{{- $notes := list }}
{{- range $name := list "clusterName" "clusterEndpoint" }}
{{- if and (get $.Values.controller $name) (not (get $.Values.settings $name)) }}
{{- $notes = append $notes (printf "controller.%s is how Karpenter 0.5 spelled settings.%s; please write the latter." $name $name) }}
{{- end }}
{{- end }}
{{- range $name, $value := default dict (get .Values.settings "aws") }}
{{- $now := get (dict "clusterName" "clusterName" "clusterEndpoint" "clusterEndpoint" "interruptionQueueName" "interruptionQueue") $name }}
{{- if $now }}
{{- $notes = append $notes (printf "settings.aws.%s is how Karpenter 0.19 to 0.32 spelled settings.%s; please write the latter." $name $now) }}
{{- else }}
{{- $notes = append $notes (printf "settings.aws.%s is not heeded: see docs/settings.md for what takes its place." $name) }}
{{- end }}
{{- end }}
{{- join " " $notes }}
{{- end }}
