{{/* Values as Karpenter's charts from 0.5 to 1.14 have them, and what becomes of each: honoured, refused with what takes its
     place, or named as without effect. */}}

{{/* The image, which Karpenter 0.5 to 0.25 had as a text. */}}
{{- define "dovetail.image" -}}
{{- $image := .Values.controller.image }}
{{- if kindIs "string" $image }}
{{- $image }}
{{- else if $image.digest }}
{{- printf "%s@%s" $image.repository $image.digest }}
{{- else }}
{{- printf "%s:%s" $image.repository (default .Chart.AppVersion $image.tag) }}
{{- end }}
{{- end }}

{{/* Gates as FEATURE_GATES has them. A gate that is spelled with a capital, and the driftEnabled of Karpenter 0.27 to 0.31, win
     over the chart's defaults. */}}
{{- define "dovetail.gates" -}}
{{- $gates := dict }}
{{- range $name, $on := . }}
{{- if ne $name (title $name) }}
{{- $_ := set $gates (title $name) $on }}
{{- end }}
{{- end }}
{{- range $name, $on := . }}
{{- if eq $name (title $name) }}
{{- $_ := set $gates $name $on }}
{{- end }}
{{- end }}
{{- if hasKey $gates "DriftEnabled" }}
{{- $_ := set $gates "Drift" (get $gates "DriftEnabled") }}
{{- $_ := unset $gates "DriftEnabled" }}
{{- end }}
{{- $all := list }}
{{- range $name, $on := $gates }}
{{- $all = append $all (printf "%s=%t" $name $on) }}
{{- end }}
{{- join "," $all }}
{{- end }}

{{/* The queue under its name of today, or as older charts and people spell it. Karpenter 0.19.0 had a switch, and the cluster's
     name for the queue's. */}}
{{- define "dovetail.queue" -}}
{{- $queue := include "dovetail.setting" (dict "root" . "name" "interruptionQueue" "aws" "interruptionQueueName") }}
{{- $queue = default (get .Values.settings "interruptionQueueName") $queue | toString | replace "<nil>" "" }}
{{- if and (not $queue) (eq (get (default dict (get .Values.settings "aws")) "enableInterruptionHandling" | toString) "true") }}
{{- $queue = include "dovetail.clusterName" . }}
{{- end }}
{{- $queue }}
{{- end }}

{{/* The value of settings that becomes a variable: by its name of today, or as Karpenter 0.5 to 0.32 had it. */}}
{{- define "dovetail.value" -}}
{{- $text := get .root.Values.settings .name | toString | replace "<nil>" "" }}
{{- $aws := get (default dict (get .root.Values.settings "aws")) .name | toString | replace "<nil>" "" }}
{{- $controller := get .root.Values.controller .name | toString | replace "<nil>" "" }}
{{- if $aws }}
{{- $text = $aws }}
{{- else if and (eq .name "batchMaxDuration") $controller (eq $text "10s") }}
{{- $text = $controller }}
{{- else if and (eq .name "batchIdleDuration") $controller (eq $text "1s") }}
{{- $text = $controller }}
{{- else if and (eq .name "defaultInstanceProfile") (not $text) }}
{{- $text = get (default dict (get .root.Values "aws")) .name | toString | replace "<nil>" "" }}
{{- else if and (eq .name "logFormat") (not $text) }}
{{- $text = (include "dovetail.log" .root | fromYaml).format }}
{{- end }}
{{- $text }}
{{- end }}

{{/* The log: of logConfig (Karpenter 0.32 to 0.37, where it is enabled), of controller.X (0.6 to 0.31), or as it is today. */}}
{{- define "dovetail.log" -}}
{{- $controller := .Values.controller }}
{{- $config := default dict (get .Values "logConfig") }}
{{- if not (get $config "enabled") }}
{{- $config = dict }}
{{- end }}
{{- $levels := default dict (get $config "logLevel") }}
{{- $encoding := coalesce (get $config "logEncoding") (get $controller "logEncoding") (get .Values "logEncoding") | default "" }}
level: {{ coalesce (get $levels "controller") (get $levels "global") (get $controller "logLevel") .Values.logLevel "info" | quote }}
outputs: {{ coalesce (get $config "outputPaths") (get $controller "outputPaths") .Values.logOutputPaths | join "," | quote }}
errors: {{ coalesce (get $config "errorOutputPaths") (get $controller "errorOutputPaths") .Values.logErrorOutputPaths | join "," | quote }}
format: {{ get (dict "console" "text" "json" "json") $encoding | quote }}
{{- end }}

{{/* Where the pods may run; Karpenter 0.5 had that under controller. A node that Dovetail launched has another label than a node
     of Karpenter up to 0.31: who keeps off the one keeps off the other. */}}
{{- define "dovetail.placement" -}}
{{- $controller := .Values.controller }}
{{- $affinity := mergeOverwrite (deepCopy (default dict .Values.affinity)) (deepCopy (default dict (get $controller "affinity"))) }}
{{- range dig "nodeAffinity" "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $affinity }}
{{- $keys := list }}
{{- range default list .matchExpressions }}
{{- $keys = append $keys .key }}
{{- end }}
{{- if and (has "karpenter.sh/provisioner-name" $keys) (not (has "karpenter.sh/nodepool" $keys)) }}
{{- $_ := set . "matchExpressions" (append .matchExpressions (dict "key" "karpenter.sh/nodepool" "operator" "DoesNotExist")) }}
{{- end }}
{{- end }}
{{- $tolerations := default list .Values.tolerations }}
{{- with get $controller "tolerations" }}
{{- $tolerations = concat $tolerations . }}
{{- end }}
{{- $selector := mergeOverwrite (deepCopy (default dict .Values.nodeSelector)) (deepCopy (default dict (get $controller "nodeSelector"))) }}
{{- dict "affinity" $affinity "tolerations" $tolerations "nodeSelector" $selector | toYaml }}
{{- end }}

{{- define "dovetail.replicas" -}}
{{- if .Values.shadow.enabled }}1
{{- else if hasKey .Values.controller "replicas" }}{{ .Values.controller.replicas }}
{{- else }}{{ .Values.replicas }}
{{- end }}
{{- end }}

{{/* What is said of values in the spelling of older charts, and of values that change nothing; empty where there are none. */}}
{{- define "dovetail.noted" -}}
{{- join " " (compact (list (include "dovetail.oldSpellings" .) (include "dovetail.unheeded" .))) }}
{{- end }}

{{- define "dovetail.oldSpellings" -}}
{{- $notes := list }}
{{- $now := "%s is read as %s, its name of today." }}
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
{{- range $name, $to := dict "affinity" "affinity" "nodeSelector" "nodeSelector" "tolerations" "tolerations" "replicas" "replicas" "logLevel" "logLevel" "outputPaths" "logOutputPaths" "logEncoding" "settings.logFormat" "batchMaxDuration" "settings.batchMaxDuration" "batchIdleDuration" "settings.batchIdleDuration" }}
{{- if get $.Values.controller $name }}
{{- $notes = append $notes (printf $now (printf "controller.%s" $name) $to) }}
{{- end }}
{{- end }}
{{- if get .Values "logEncoding" }}
{{- $notes = append $notes (printf $now "logEncoding" "settings.logFormat") }}
{{- end }}
{{- if get (default dict (get .Values "logConfig")) "enabled" }}
{{- $notes = append $notes (printf $now "logConfig" "logLevel, logOutputPaths, settings.logFormat") }}
{{- end }}
{{- if get (default dict (get .Values "aws")) "defaultInstanceProfile" }}
{{- $notes = append $notes (printf $now "aws.defaultInstanceProfile" "settings.defaultInstanceProfile") }}
{{- end }}
{{- if kindIs "string" .Values.controller.image }}
{{- $notes = append $notes "controller.image as a text is how Karpenter up to 0.25 spelled controller.image.repository, tag and digest; use the new names." }}
{{- end }}
{{- if hasKey .Values.settings.featureGates "driftEnabled" }}
{{- $notes = append $notes (printf $now "settings.featureGates.driftEnabled" "settings.featureGates.drift") }}
{{- end }}
{{- $aws := default dict (get .Values.settings "aws") }}
{{- if eq (get $aws "enableInterruptionHandling" | toString) "true" }}
{{- $notes = append $notes "settings.aws.enableInterruptionHandling, of Karpenter 0.19.0, means settings.interruptionQueue with the cluster's name." }}
{{- end }}
{{- $variables := include "dovetail.variables" . | fromYaml }}
{{- range $name, $value := $aws }}
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
{{- $image := include "dovetail.image" . }}
{{- if regexMatch "(^|/)karpenter/controller([:@]|$)" $image }}
{{- fail (printf "controller.image is Karpenter's own program (%s), which this chart cannot run: set controller.image.repository and controller.image.tag to the image of Dovetail that you pushed, and controller.image.digest to its digest or to nothing" $image) }}
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
{{- $old := list }}
{{- range $name := list "postInstallHook" "defaultProvisioner" }}
{{- if get $.Values $name }}
{{- $old = append $old $name }}
{{- end }}
{{- end }}
{{- range $name, $value := .Values.webhook }}
{{- if and $value (not (has $name (list "enabled" "port" "url"))) }}
{{- $old = append $old (printf "webhook.%s" $name) }}
{{- end }}
{{- end }}
{{- with get .Values "logConfig" }}
{{- if not .enabled }}
{{- $old = append $old "logConfig (it is not enabled)" }}
{{- else if get (default dict (get . "logLevel")) "webhook" }}
{{- $old = append $old "logConfig.logLevel.webhook" }}
{{- end }}
{{- end }}
{{- if eq (get (default dict (get .Values.settings "aws")) "enablePodENI" | toString) "true" }}
{{- $old = append $old "settings.aws.enablePodENI (types with trunks always offer pod interfaces)" }}
{{- end }}
{{- if eq (get (default dict (get .Values.settings "aws")) "nodeNameConvention" | toString) "resource-name" }}
{{- $old = append $old "settings.aws.nodeNameConvention (a node is found by its instance, whatever its name)" }}
{{- end }}
{{- if $old }}
{{- $notes = append $notes (printf "Of older charts of Karpenter, without effect: %s." (join ", " $old)) }}
{{- end }}
{{- $arns := list (get .Values.settings "assumeRoleARN") (get (default dict (get .Values.settings "aws")) "assumeRoleARN") | compact }}
{{- if $arns }}
{{- $notes = append $notes (printf "settings.assumeRoleARN (%s) and assumeRoleDuration, of older charts of Karpenter, have no effect: Dovetail has the rights of its service account's role alone (serviceAccount.annotations, or an EKS Pod Identity association)." (first $arns)) }}
{{- end }}
{{- range $name, $on := .Values.settings.featureGates }}
{{- $gate := untitle $name }}
{{- if not (has $gate (list "drift" "driftEnabled" "nodeRepair" "rebootForRepair" "nodeOverlay" "reservedCapacity" "spotToSpotConsolidation" "manyToManyConsolidation" "staticCapacity" "terminateFirstDrift" "terminateFirstRepair" "capacityBuffer" "capacityQuota" "podDeletionCostManagement" "provisioningRequest" "verticalPodAutoscaler" "gangScheduling")) }}
{{- $notes = append $notes (printf "settings.featureGates.%s: there is no such gate." $name) }}
{{- end }}
{{- end }}
{{- range $name, $on := .Values.settings.awsFeatureGates }}
{{- if and (eq ($on | toString) "true") (ne ($name | lower) "dranvidiagpu") }}
{{- $notes = append $notes (printf "not implemented: settings.awsFeatureGates.%s." $name) }}
{{- end }}
{{- end }}
{{- if regexMatch "(^|,)Drift=false" (include "dovetail.gates" .Values.settings.featureGates) }}
{{- $notes = append $notes "Drift is off: nodes stay when their NodePool or EC2NodeClass changes." }}
{{- end }}
{{- range $name, $default := dict "disableControllerWarmup" "true" "enableZonalShift" "false" "enableProfiling" "false" }}
{{- $value := get $.Values.settings $name | toString }}
{{- if not (has $value (list "" "<nil>" $default)) }}
{{- $notes = append $notes (printf "not implemented: settings.%s=%s." $name $value) }}
{{- end }}
{{- end }}
{{- if ne (include "dovetail.log" . | fromYaml).errors "stderr" }}
{{- $notes = append $notes "logErrorOutputPaths has no effect: errors are in the log." }}
{{- end }}
{{- range .Values.controller.env }}
{{- if include "dovetail.isProxy" .name }}
{{- $notes = append $notes (printf "%s is used on the way to AWS, and not to the API server." .name) }}
{{- end }}
{{- end }}
{{- join " " $notes }}
{{- end }}
