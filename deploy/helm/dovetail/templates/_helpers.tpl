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

{{/* A setting under its name of today, or of Karpenter 0.19 (settings.aws.X), 0.6 (X) or 0.5 (controller.X); quotes that
     `aws --output json` leaves around a value are taken off. */}}
{{- define "dovetail.setting" -}}
{{- $aws := default dict (get .root.Values.settings "aws") }}
{{- $oldest := default (get .root.Values.controller .name) (get .root.Values .name) }}
{{- $old := default $oldest (get $aws (default .name .aws)) }}
{{- default $old (get .root.Values.settings .name) | toString | trimAll "\"" | replace "<nil>" "" }}
{{- end }}

{{/* What controller.env says of a variable, in words; empty where it does not. */}}
{{- define "dovetail.given" -}}
{{- $given := "" }}
{{- range .root.Values.controller.env }}
{{- if eq .name $.variable }}
{{- if hasKey . "valueFrom" }}
{{- fail (printf "controller.env takes %s from elsewhere, where the chart cannot follow: set fence.%s instead" $.variable $.value) }}
{{- end }}
{{- $given = .value | toString | replace "<nil>" "" }}
{{- end }}
{{- end }}
{{- $given }}
{{- end }}

{{/* Whether there is no Lease: `true`, or something else. */}}
{{- define "dovetail.leaseless" -}}
{{- $given := include "dovetail.given" (dict "root" . "variable" "DISABLE_LEADER_ELECTION" "value" "enabled") }}
{{- get .Values.settings "disableLeaderElection" | toString | replace "<nil>" "" | default $given }}
{{- end }}

{{/* One half of the Lease's name: by fence.<value> or by controller.env's variable, which have to agree. */}}
{{- define "dovetail.ofLease" -}}
{{- $given := include "dovetail.given" . }}
{{- $own := get .root.Values.fence .value | default "" | toString }}
{{- if and $own $given (ne $own $given) }}
{{- fail (printf "the Lease is set twice, to different values: fence.%s is %s, %s in controller.env is %s" .value (quote $own) .variable (quote $given)) }}
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

{{/* The webhook's Service, Secret and roles. */}}
{{- define "dovetail.webhookName" -}}
{{- printf "%s-webhook" (include "dovetail.fullname" . | trunc 55 | trimSuffix "-") }}
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

{{/* The queue under its name of today, or as older charts and people spell it. */}}
{{- define "dovetail.queue" -}}
{{- $aws := include "dovetail.setting" (dict "root" . "name" "interruptionQueue" "aws" "interruptionQueueName") }}
{{- default (get .Values.settings "interruptionQueueName") $aws | toString | replace "<nil>" "" }}
{{- end }}

{{/* Values of settings that become a variable as they are, by name. */}}
{{- define "dovetail.variables" -}}
adoptAs: ADOPT_AS
adoptKarpenterInstances: ADOPT_KARPENTER_INSTANCES
amiRefreshInterval: AMI_REFRESH_INTERVAL
awsRegion: AWS_REGION
batchByPace: BATCH_BY_PACE
batchIdleDuration: BATCH_IDLE_DURATION
batchMaxDuration: BATCH_MAX_DURATION
batchMaxPods: BATCH_MAX_PODS
bindAddress: BIND_ADDRESS
clusterCABundle: CLUSTER_CA_BUNDLE
consolePort: CONSOLE_PORT
consolidationLeastAge: CONSOLIDATION_LEAST_AGE
consolidationLeastPerPod: CONSOLIDATION_LEAST_PER_POD
consolidationLeastSaving: CONSOLIDATION_LEAST_SAVING
consolidationPayback: CONSOLIDATION_PAYBACK
consolidationPriceMoves: CONSOLIDATION_PRICE_MOVES
consolidationRest: CONSOLIDATION_REST
defaultInstanceProfile: DEFAULT_INSTANCE_PROFILE
disableClusterStateObservability: DISABLE_CLUSTER_STATE_OBSERVABILITY
disableControllerWarmup: DISABLE_CONTROLLER_WARMUP
disableDryRun: DISABLE_DRY_RUN
disableLeaderElection: DISABLE_LEADER_ELECTION
eksControlPlane: EKS_CONTROL_PLANE
enableProfiling: ENABLE_PROFILING
enableZonalShift: ENABLE_ZONAL_SHIFT
ignoreDRARequests: IGNORE_DRA_REQUESTS
initializationTimeout: INITIALIZATION_TIMEOUT
interruption: INTERRUPTION
isolatedVPC: ISOLATED_VPC
kubeClientBurst: KUBE_CLIENT_BURST
kubeClientQPS: KUBE_CLIENT_QPS
leaderElectionLeaseDuration: LEADER_ELECTION_LEASE_DURATION
leaderElectionRenewDeadline: LEADER_ELECTION_RENEW_DEADLINE
leaderElectionRetryPeriod: LEADER_ELECTION_RETRY_PERIOD
logFormat: LOG_FORMAT
maxCostPerHour: MAX_COST_PER_HOUR
maxFutileCost: MAX_FUTILE_COST
maxFutileLaunches: MAX_FUTILE_LAUNCHES
maxLaunchesPerHour: MAX_LAUNCHES_PER_HOUR
maxOptionPrice: MAX_OPTION_PRICE
maxPriceRise: MAX_PRICE_RISE
minValuesPolicy: MIN_VALUES_POLICY
packingComparisonInterval: PACKING_COMPARISON_INTERVAL
packingPolicy: PACKING_POLICY
preferencePolicy: PREFERENCE_POLICY
pricePerNode: PRICE_PER_NODE
rebalance: REBALANCE
reservedENIs: RESERVED_ENIS
schedulerConfig: SCHEDULER_CONFIG
spotPriceRefreshInterval: SPOT_PRICE_REFRESH_INTERVAL
startupTimeout: STARTUP_TIMEOUT
subnetRefreshInterval: SUBNET_REFRESH_INTERVAL
unscheduledPodDelay: UNSCHEDULED_POD_DELAY
vmMemoryOverheadPercent: VM_MEMORY_OVERHEAD_PERCENT
{{- end }}

{{/* What is said of values in the spelling of older charts, and of values that change nothing; empty where there are none. */}}
{{- define "dovetail.noted" -}}
{{- join " " (compact (list (include "dovetail.oldSpellings" .) (include "dovetail.unheeded" .))) }}
{{- end }}

{{- define "dovetail.oldSpellings" -}}
{{- $notes := list }}
{{- range $name := list "clusterName" "clusterEndpoint" }}
{{- if and (get $.Values.controller $name) (not (get $.Values.settings $name)) }}
{{- $notes = append $notes (printf "controller.%s is how Karpenter 0.5 spelled settings.%s; use the new name." $name $name) }}
{{- end }}
{{- if and (get $.Values $name) (not (get $.Values.settings $name)) }}
{{- $notes = append $notes (printf "%s is how Karpenter 0.6 to 0.18 spelled settings.%s; use the new name." $name $name) }}
{{- end }}
{{- end }}
{{- if get .Values.settings "interruptionQueueName" }}
{{- $notes = append $notes "settings.interruptionQueueName is read as settings.interruptionQueue; use the new name." }}
{{- end }}
{{- $variables := include "dovetail.variables" . | fromYaml }}
{{- range $name, $value := default dict (get .Values.settings "aws") }}
{{- $now := get (dict "clusterName" "clusterName" "clusterEndpoint" "clusterEndpoint" "interruptionQueueName" "interruptionQueue") $name }}
{{- if hasKey $variables $name }}
{{- $now = $name }}
{{- end }}
{{- if $now }}
{{- $notes = append $notes (printf "settings.aws.%s is how Karpenter 0.19 to 0.32 spelled settings.%s; use the new name." $name $now) }}
{{- end }}
{{- end }}
{{- join " " $notes }}
{{- end }}

{{/* Values of Karpenter 0.19 to 0.32 that would change what is launched, and have no setting any more: refused by name, with
     what takes their place. Each with the values that ask for nothing. */}}
{{- define "dovetail.refused" -}}
assumeRoleARN: {nothing: [""], instead: "let the service account have the role (serviceAccount.annotations, or an EKS Pod Identity association)"}
assumeRoleDuration: {nothing: ["", "15m"], instead: "the service account's role says how long its sessions last"}
enableENILimitedPodDensity: {nothing: ["", "true"], instead: "set spec.kubelet.maxPods: 110 in each EC2NodeClass"}
tags: {nothing: ["", "map[]"], instead: "give spec.tags in each EC2NodeClass"}
{{- end }}

{{- define "dovetail.refusing" -}}
{{- $aws := default dict (get .Values.settings "aws") }}
{{- range $name, $how := include "dovetail.refused" . | fromYaml }}
{{- $value := get $aws $name | toString | replace "<nil>" "" }}
{{- if not (has $value $how.nothing) }}
{{- fail (printf "settings.aws.%s, of Karpenter 0.19 to 0.32, no longer exists: %s" $name $how.instead) }}
{{- end }}
{{- end }}
{{- if .Values.fargate }}
{{- if not (.Values.settings.awsRegion) }}
{{- fail "fargate: no instance metadata has the region: set settings.awsRegion" }}
{{- end }}
{{- if and .Values.serviceAccount.create (not (hasKey .Values.serviceAccount.annotations "eks.amazonaws.com/role-arn")) }}
{{- fail "fargate: EKS Pod Identity is not available; give the service account its role by IRSA: serviceAccount.annotations, eks.amazonaws.com/role-arn" }}
{{- end }}
{{- if .Values.hostNetwork }}
{{- fail "fargate: pods cannot use the host's network: hostNetwork has to be false" }}
{{- end }}
{{- end }}
{{- $region := .Values.settings.awsRegion }}
{{- $queue := include "dovetail.queue" . | trimAll "\"" }}
{{- $of := regexFind "^https?://sqs\\.[a-z0-9-]+\\." $queue | trimPrefix "https://" | trimPrefix "http://" | trimPrefix "sqs." | trimSuffix "." }}
{{- if hasPrefix "arn:" $queue }}
{{- $of = index (splitList ":" $queue) 3 }}
{{- end }}
{{- if and $region $of (ne $region $of) }}
{{- fail (printf "settings.interruptionQueue is a queue of %s, settings.awsRegion is %s: use the queue of the cluster's own region" $of $region) }}
{{- end }}
{{- end }}

{{/* Values that change nothing: those of older charts, and what is not implemented. */}}
{{- define "dovetail.unheeded" -}}
{{- $notes := list }}
{{- range $name := list "logEncoding" "logConfig" "aws" }}
{{- if hasKey $.Values $name }}
{{- $notes = append $notes (printf "%s, of an older chart of Karpenter, has no effect." $name) }}
{{- end }}
{{- end }}
{{- if hasKey .Values.webhook "metrics" }}
{{- $notes = append $notes "webhook.metrics, of an older chart of Karpenter, has no effect: the webhook has no metrics of its own." }}
{{- end }}
{{- range $name := list "logLevel" "logEncoding" "outputPaths" "errorOutputPaths" "batchMaxDuration" "batchIdleDuration" }}
{{- if hasKey $.Values.controller $name }}
{{- $notes = append $notes (printf "controller.%s, of an older chart of Karpenter, has no effect: see values.yaml for its replacement." $name) }}
{{- end }}
{{- end }}
{{- range $name := list "assumeRoleARN" "assumeRoleDuration" }}
{{- if hasKey $.Values.settings $name }}
{{- $notes = append $notes (printf "settings.%s, of an older chart of Karpenter, has no effect: the service account has the role." $name) }}
{{- end }}
{{- end }}
{{- range $name, $on := .Values.settings.featureGates }}
{{- if not (has $name (list "nodeRepair" "nodeOverlay" "reservedCapacity" "spotToSpotConsolidation" "manyToManyConsolidation" "staticCapacity" "capacityBuffer")) }}
{{- $notes = append $notes (printf "settings.featureGates.%s: there is no such gate." $name) }}
{{- else if and (eq ($on | toString) "true") (not (has $name (list "reservedCapacity" "nodeRepair" "spotToSpotConsolidation" "manyToManyConsolidation"))) }}
{{- $notes = append $notes (printf "not implemented: settings.featureGates.%s." $name) }}
{{- end }}
{{- end }}
{{- range $name, $on := .Values.settings.awsFeatureGates }}
{{- if eq ($on | toString) "true" }}
{{- $notes = append $notes (printf "not implemented: settings.awsFeatureGates.%s." $name) }}
{{- end }}
{{- end }}
{{- range $name, $default := dict "disableControllerWarmup" "true" "enableZonalShift" "false" "enableProfiling" "false" "ignoreDRARequests" "true" }}
{{- $value := get $.Values.settings $name | toString }}
{{- if not (has $value (list "" "<nil>" $default)) }}
{{- $notes = append $notes (printf "not implemented: settings.%s=%s." $name $value) }}
{{- end }}
{{- end }}
{{- if ne (join "," .Values.logErrorOutputPaths) "stderr" }}
{{- $notes = append $notes "logErrorOutputPaths has no effect: errors are in the log." }}
{{- end }}
{{- join " " $notes }}
{{- end }}

{{/* What the cluster itself says against an installation: CRDs of before v1, and a Karpenter that runs. Only helm that asks a
     cluster sees it; the control plane looks for the same at every start. */}}
{{- define "dovetail.unfit" -}}
{{- range $name := list "nodepools.karpenter.sh" "nodeclaims.karpenter.sh" "ec2nodeclasses.karpenter.k8s.aws" }}
{{- $served := list }}
{{- range dig "spec" "versions" list (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" $name) }}
{{- if .served }}
{{- $served = append $served .name }}
{{- end }}
{{- end }}
{{- if and $served (not (has "v1" $served)) }}
{{- fail (printf "the CRD %s in the cluster serves %s and not v1, and helm does not replace existing CRDs: install Dovetail's (helm upgrade --install dovetail-crd deploy/helm/dovetail-crd --take-ownership, or dovetail crds | kubectl apply --server-side --force-conflicts -f -), then this chart" $name (join ", " $served)) }}
{{- end }}
{{- end }}
{{- $shared := eq (include "dovetail.lease" .) "karpenter-leader-election" | and (ne (include "dovetail.leaseless" .) "true") }}
{{- range dig "items" list (lookup "apps/v1" "Deployment" "" "") }}
{{- $ours := and $shared (eq .metadata.namespace (include "dovetail.leaseNamespace" $)) }}
{{- if and (gt (int (dig "spec" "replicas" 1 .)) 0) (not $ours) }}
{{- $name := dig "metadata" "labels" "app.kubernetes.io/name" "" . }}
{{- $is := eq $name "karpenter" }}
{{- range dig "spec" "template" "spec" "containers" list . }}
{{- $is = or $is (contains "karpenter/controller" (default "" .image)) }}
{{- end }}
{{- if and $is (ne $name (include "dovetail.name" $)) }}
{{- fail (printf "Karpenter runs as Deployment %s/%s: both would launch nodes for the same pods. Scale it to 0 first (kubectl -n %s scale deployment %s --replicas 0), or install this chart into its namespace, where they share a Lease" .metadata.namespace .metadata.name .metadata.namespace .metadata.name) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
