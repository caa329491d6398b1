#![allow(clippy::unwrap_used)]
//! EC2's long lists beside the SDK: the same requests, the same answers.

use aws_sdk_ec2::config::endpoint::{DefaultResolver, Params, ResolveEndpoint as _};
use aws_sdk_ec2::types::{Filter, LocationType};
use aws_smithy_types::DateTime;
use futures::FutureExt as _;

use super::endpoints::{FipsHost, Host};
use super::sdk_oracle::info_of;
use super::tests::{GOLDEN, Server, url};
use crate::ec2::classify::{Effect, classify};
use crate::error::CloudError;
use crate::info::InstanceTypeInfo;

/// A type that has all that a type can have, a bare one, and members that nobody knows.
const TYPES: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<DescribeInstanceTypesResponse xmlns=\"http://ec2.amazonaws.com/doc/2016-11-15/\">
    <requestId>r</requestId><instanceTypeSet><item><instanceType>p9.all</instanceType><currentGeneration>true</currentGeneration>
    <freeTierEligible>true</freeTierEligible><supportedUsageClasses><item>on-demand</item><item>spot</item></supportedUsageClasses>
    <supportedRootDeviceTypes><item>ebs</item></supportedRootDeviceTypes><bareMetal>true</bareMetal><hypervisor>nitro</hypervisor>
    <supportedVirtualizationTypes><item>hvm</item></supportedVirtualizationTypes>
    <processorInfo><supportedArchitectures><item>x86_64</item><item>new_arch</item></supportedArchitectures>
    <supportedFeatures><item>amd-sev-snp</item></supportedFeatures><manufacturer>A&amp;B</manufacturer>
    <sustainedClockSpeedInGhz>3.5</sustainedClockSpeedInGhz></processorInfo><vCpuInfo><defaultVCpus>192</defaultVCpus>
    <defaultCores>96</defaultCores><defaultThreadsPerCore>2</defaultThreadsPerCore><validCores><item>1</item></validCores></vCpuInfo>
    <memoryInfo><sizeInMiB>2097152</sizeInMiB></memoryInfo><instanceStorageSupported>true</instanceStorageSupported>
    <instanceStorageInfo><totalSizeInGB>30400</totalSizeInGB><nvmeSupport>required</nvmeSupport><disks><item><count>8</count>
    <sizeInGB>3800</sizeInGB><type>ssd</type></item></disks><encryptionSupport>required</encryptionSupport></instanceStorageInfo>
    <ebsInfo><ebsOptimizedSupport>default</ebsOptimizedSupport><encryptionSupport>supported</encryptionSupport>
    <nvmeSupport>required</nvmeSupport><maximumEbsAttachments>128</maximumEbsAttachments><attachmentLimitType>dedicated</attachmentLimitType>
    <ebsOptimizedInfo><baselineBandwidthInMbps>80000</baselineBandwidthInMbps><baselineThroughputInMBps>10000.0</baselineThroughputInMBps>
    <baselineIops>260000</baselineIops><maximumBandwidthInMbps>100000</maximumBandwidthInMbps><maximumIops>400000</maximumIops>
    </ebsOptimizedInfo></ebsInfo><networkInfo><networkPerformance>3200 Gigabit</networkPerformance>
    <maximumNetworkInterfaces>64</maximumNetworkInterfaces><maximumNetworkCards>32</maximumNetworkCards>
    <defaultNetworkCardIndex>1</defaultNetworkCardIndex><ipv4AddressesPerInterface>50</ipv4AddressesPerInterface>
    <ipv6AddressesPerInterface>51</ipv6AddressesPerInterface><ipv6Supported>true</ipv6Supported><enaSupport>required</enaSupport>
    <enaSrdSupported>true</enaSrdSupported><efaSupported>true</efaSupported><efaInfo><maximumEfaInterfaces>32</maximumEfaInterfaces>
    </efaInfo><encryptionInTransitSupported>true</encryptionInTransitSupported><networkCards><item><networkCardIndex>0</networkCardIndex>
    <networkPerformance>100 Gigabit</networkPerformance><maximumNetworkInterfaces>2</maximumNetworkInterfaces>
    <baselineBandwidthInGbps>100.5</baselineBandwidthInGbps><peakBandwidthInGbps>101.0</peakBandwidthInGbps>
    <interfaceTypeSet><item>interface</item><item>efa-only</item></interfaceTypeSet></item></networkCards></networkInfo>
    <gpuInfo><gpus><item><name>H100</name><manufacturer>NVIDIA</manufacturer><count>8</count><gpuPartitionSize>0.125</gpuPartitionSize>
    <memoryInfo><sizeInMiB>81920</sizeInMiB></memoryInfo></item></gpus><totalGpuMemoryInMiB>655360</totalGpuMemoryInMiB></gpuInfo>
    <fpgaInfo><fpgas><item><name>F</name><manufacturer>X</manufacturer><count>1</count><memoryInfo><sizeInMiB>7</sizeInMiB></memoryInfo>
    </item></fpgas></fpgaInfo><inferenceAcceleratorInfo><accelerators><member><count>4</count><name>I</name><manufacturer>AWS</manufacturer>
    <memoryInfo><sizeInMiB>8</sizeInMiB></memoryInfo></member></accelerators></inferenceAcceleratorInfo><mediaAcceleratorInfo>
    <accelerators><item><count>2</count><name>M</name><manufacturer>Y</manufacturer><memoryInfo><sizeInMiB>24</sizeInMiB></memoryInfo>
    </item></accelerators></mediaAcceleratorInfo><neuronInfo><neuronDevices><item><count>16</count><name>Trainium</name><coreInfo>
    <count>2</count><version>3</version></coreInfo><memoryInfo><sizeInMiB>32768</sizeInMiB></memoryInfo></item></neuronDevices></neuronInfo>
    <placementGroupInfo><supportedStrategies><item>cluster</item></supportedStrategies></placementGroupInfo>
    <hibernationSupported>true</hibernationSupported><burstablePerformanceSupported>true</burstablePerformanceSupported>
    <dedicatedHostsSupported>true</dedicatedHostsSupported><autoRecoverySupported>true</autoRecoverySupported>
    <supportedBootModes><item>uefi</item></supportedBootModes><nitroEnclavesSupport>supported</nitroEnclavesSupport>
    <nitroTpmSupport>supported</nitroTpmSupport><newInfo><gpus><item><name>none</name></item></gpus></newInfo></item>
    <item><instanceType>bare.small</instanceType><vCpuInfo><defaultVCpus>-1</defaultVCpus></vCpuInfo>
    <nitroTpmSupport>unsupported</nitroTpmSupport><hypervisor/></item></instanceTypeSet><nextToken>a+b=</nextToken>
    </DescribeInstanceTypesResponse>\n";
const OFFERINGS: &str = "<DescribeInstanceTypeOfferingsResponse><instanceTypeOfferingSet><item><instanceType>m5.large</instanceType>\
    <locationType>availability-zone</locationType><location>us-east-1a</location></item></instanceTypeOfferingSet>\
    </DescribeInstanceTypeOfferingsResponse>";
const SPOT_PRICES: &str = "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet><item><instanceType>m5.large</instanceType>\
    <productDescription>Linux/UNIX</productDescription><spotPrice>0.031000</spotPrice><timestamp>2026-01-01T00:00:00.000Z</timestamp>\
    <availabilityZone>us-east-1a</availabilityZone></item></spotPriceHistorySet><nextToken/></DescribeSpotPriceHistoryResponse>";

/// The fields of the last request, in order of their names.
fn last_form(server: &Server) -> Vec<(String, String)> {
    let (line, kind, body) = server.last("content-type");
    assert_eq!(
        (line.as_str(), kind.as_str()),
        ("POST https://ec2.eu-west-1.amazonaws.com/", "application/x-www-form-urlencoded")
    );
    let mut form: Vec<_> = form_urlencoded::parse(body.as_bytes()).into_owned().collect();
    form.sort();
    form
}

fn filter(name: &str, values: &[&str]) -> Filter {
    Filter::builder().name(name).set_values(Some(values.iter().map(|&value| value.into()).collect())).build()
}

#[tokio::test(start_paused = true)]
async fn instance_types_are_asked_for_and_read_as_the_sdk_does() {
    let last = "<DescribeInstanceTypesResponse><instanceTypeSet><item><instanceType>c.1</instanceType></item></instanceTypeSet>\
        </DescribeInstanceTypesResponse>";
    let server = Server::new([(200, TYPES), (200, last)]);
    let ours = server.clients("eu-west-1").region_lists.describe_instance_types().await.unwrap();
    let asked = last_form(&server);
    assert_eq!(server.count(), 2, "page by page");
    let server = Server::new([(200, TYPES)]);
    let clients = server.clients("eu-west-1");
    let sdk = clients.ec2.describe_instance_types().next_token("a+b=").max_results(100);
    let sdk = sdk.filters(filter("supported-virtualization-type", &["hvm"]));
    let sdk = sdk.filters(filter("processor-info.supported-architecture", &["x86_64", "arm64"])).send().await.unwrap();
    assert_eq!(asked, last_form(&server));
    assert_eq!(sdk.next_token(), Some("a+b="));
    let wanted: Vec<InstanceTypeInfo> = sdk.instance_types().iter().map(info_of).collect();
    assert_eq!(ours[..2], wanted);
    let [all, bare, last] = &ours[..] else { unreachable!() };
    assert_eq!((all.vcpus, all.neuron[0].core_version, all.network.cards[0].baseline_gbps), (192, 3, Some(100.5)));
    assert_eq!((bare.vcpus, bare.nitro_tpm, bare.hypervisor.as_deref()), (0, false, Some("")));
    assert_eq!(last.name, "c.1");
    // Each member of ours is read from somewhere: none is as it is in a type that says nothing.
    let (all, none) = [all, &InstanceTypeInfo::default()].map(|one| serde_json::to_value(one).unwrap()).into();
    for (name, value) in all.as_object().unwrap() {
        assert_ne!(value, &none[name], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn zones_and_spot_prices_are_asked_for_and_read_as_the_sdk_does() {
    let server = Server::new([(200, OFFERINGS)]);
    let clients = server.clients("eu-west-1");
    let ours = clients.region_lists.describe_instance_type_offerings().await.unwrap();
    let asked = last_form(&server);
    let sdk = clients.ec2.describe_instance_type_offerings().location_type(LocationType::AvailabilityZone);
    let sdk = sdk.max_results(1000).send().await.unwrap();
    assert_eq!(asked, last_form(&server));
    let found = &sdk.instance_type_offerings()[0];
    assert_eq!(found.instance_type().unwrap().as_str(), ours[0].instance_type);
    assert_eq!((found.location(), sdk.next_token()), (Some(ours[0].zone.as_str()), None));

    let more = SPOT_PRICES.replace("<nextToken/>", "<nextToken>t</nextToken>");
    let server = Server::new([(200, &more), (200, SPOT_PRICES)]);
    let clients = server.clients("eu-west-1");
    let (now, products) = (DateTime::from_secs(1_767_225_600), ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]);
    let ours = clients.region_lists.describe_spot_price_history(now, Some("us-east-1a"), products).await.unwrap();
    let asked = last_form(&server);
    assert_eq!((ours.len(), server.count()), (2, 2), "an empty name is that of no page");
    let sdk = clients.ec2.describe_spot_price_history().start_time(now).availability_zone("us-east-1a").next_token("t");
    let sdk =
        sdk.product_descriptions(products[0]).product_descriptions(products[1]).max_results(1000).send().await.unwrap();
    assert_eq!(asked, last_form(&server));
    let (found, price) = (&sdk.spot_price_history()[0], &ours[1]);
    assert_eq!(
        (found.spot_price(), found.availability_zone()),
        (Some(price.price.as_str()), Some(price.zone.as_str()))
    );
    assert_eq!((found.timestamp().unwrap().secs(), price.instance_type.as_str()), (price.since, "m5.large"));
    assert_eq!(sdk.next_token(), Some(""));
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_cut_off_or_make_no_sense_are_none() {
    let cut = TYPES.split_once("<item><instanceType>bare").unwrap().0;
    let unreadable = TYPES.replace("<defaultVCpus>192<", "<defaultVCpus>many<");
    for answer in [cut, &unreadable, OFFERINGS, "<DescribeInstanceTypesResponse><instanceTypeSet>", "", "no XML"] {
        let server = Server::new([(200, answer)]);
        let refused = server.clients("eu-west-1").region_lists.describe_instance_types().await.unwrap_err();
        let refused = classify("DescribeInstanceTypes", Effect::Repeatable, refused);
        assert!(matches!(&refused, CloudError::Retryable { code, .. } if code == "AnswerNotUnderstood"), "{refused:?}");
    }
    let denied = "<Response><Errors><Error><Code>UnauthorizedOperation</Code><Message>not you</Message></Error></Errors>\
        <RequestID>r</RequestID></Response>";
    let server = Server::new([(403, denied)]);
    let clients = server.clients("eu-west-1");
    let ours = clients.region_lists.describe_instance_types().await.unwrap_err();
    let sdk = clients.ec2.describe_instance_types().send().await.unwrap_err();
    let ours = classify("DescribeInstanceTypes", Effect::Repeatable, ours);
    assert_eq!((ours.code(), server.count()), ("UnauthorizedOperation", 2));
    assert_eq!(ours.to_string(), classify("DescribeInstanceTypes", Effect::Repeatable, sdk).to_string());
}

#[test]
fn the_host_of_ec2_is_the_sdks_in_every_partition() {
    for line in GOLDEN.lines() {
        let mut columns = line.split(' ');
        let (region, options) = (columns.next().unwrap(), columns.next().unwrap());
        let (fips, dual) = (options.contains("fips"), options.contains("dual"));
        let params = Params::builder().region(region).use_fips(fips).use_dual_stack(dual).build().unwrap();
        let sdk = DefaultResolver::new().resolve_endpoint(&params).now_or_never().unwrap().unwrap();
        let host = Host::Regional { prefix: "ec2", fips: FipsHost::NotInGov };
        assert_eq!(sdk.url(), url(host, region, options), "{line}");
    }
}
