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

{{/* true for the name of a variable that has a proxy's address, empty for others */}}
{{- define "dovetail.isProxy" -}}
{{- if has (upper .) (list "HTTP_PROXY" "HTTPS_PROXY" "ALL_PROXY") }}true{{ end }}
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
commitments: COMMITMENTS
commitmentsShare: COMMITMENTS_SHARE
consolePort: CONSOLE_PORT
consolidationLeastAge: CONSOLIDATION_LEAST_AGE
consolidationLeastPerPod: CONSOLIDATION_LEAST_PER_POD
consolidationLeastSaving: CONSOLIDATION_LEAST_SAVING
consolidationPayback: CONSOLIDATION_PAYBACK
consolidationPriceMoves: CONSOLIDATION_PRICE_MOVES
consolidationRest: CONSOLIDATION_REST
consolidationWaves: CONSOLIDATION_WAVES
daemonSetMaxOverheadPercent: DAEMONSET_MAX_OVERHEAD_PERCENT
defaultInstanceProfile: DEFAULT_INSTANCE_PROFILE
disableClusterStateObservability: DISABLE_CLUSTER_STATE_OBSERVABILITY
disableControllerWarmup: DISABLE_CONTROLLER_WARMUP
disableDryRun: DISABLE_DRY_RUN
disableLeaderElection: DISABLE_LEADER_ELECTION
ec2Limits: EC2_LIMITS
eksControlPlane: EKS_CONTROL_PLANE
enableProfiling: ENABLE_PROFILING
enableZonalShift: ENABLE_ZONAL_SHIFT
ignoreDRARequests: IGNORE_DRA_REQUESTS
expendablePodsPriorityCutoff: EXPENDABLE_PODS_PRIORITY_CUTOFF
initializationTimeout: INITIALIZATION_TIMEOUT
instanceTypesFilePath: INSTANCE_TYPES_FILE_PATH
interruption: INTERRUPTION
interruptionPriceHalfLife: INTERRUPTION_PRICE_HALF_LIFE
isolatedVPC: ISOLATED_VPC
kubeClientBurst: KUBE_CLIENT_BURST
kubeClientQPS: KUBE_CLIENT_QPS
leaderElectionLeaseDuration: LEADER_ELECTION_LEASE_DURATION
leaderElectionRenewDeadline: LEADER_ELECTION_RENEW_DEADLINE
leaderElectionRetryPeriod: LEADER_ELECTION_RETRY_PERIOD
legacyNodeRepair: LEGACY_NODE_REPAIR
logFormat: LOG_FORMAT
maxCostPerHour: MAX_COST_PER_HOUR
maxFutileCost: MAX_FUTILE_COST
maxFutileLaunches: MAX_FUTILE_LAUNCHES
maxLaunchesPerHour: MAX_LAUNCHES_PER_HOUR
maxOptionPrice: MAX_OPTION_PRICE
maxPriceRise: MAX_PRICE_RISE
minValuesPolicy: MIN_VALUES_POLICY
objectMetricsMaxNodes: OBJECT_METRICS_MAX_NODES
openReservations: OPEN_RESERVATIONS
packingComparisonInterval: PACKING_COMPARISON_INTERVAL
packingPolicy: PACKING_POLICY
preferencePolicy: PREFERENCE_POLICY
pricePerNode: PRICE_PER_NODE
provider: PROVIDER
rebalance: REBALANCE
reservedENIs: RESERVED_ENIS
schedulerConfig: SCHEDULER_CONFIG
spotPriceRefreshInterval: SPOT_PRICE_REFRESH_INTERVAL
startupTimeout: STARTUP_TIMEOUT
subnetRefreshInterval: SUBNET_REFRESH_INTERVAL
unscheduledPodDelay: UNSCHEDULED_POD_DELAY
vmMemoryOverheadPercent: VM_MEMORY_OVERHEAD_PERCENT
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
