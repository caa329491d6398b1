//! The server on a real socket.
use super::*;
use crate::apiserver::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

async fn ask(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    String::from_utf8(answer).unwrap()
}

#[tokio::test]
async fn a_client_outside_the_process_is_served_with_the_token_and_refused_without() {
    let server = server();
    server.create(&crate::apiserver::PODS, "default", pod_value("a")).unwrap();
    let listener = Listener::bind(server, ([127, 0, 0, 1], 0).into(), Some("secret".to_owned())).await.unwrap();
    let address = listener.address().unwrap();
    let local = tokio::task::LocalSet::new();
    local.spawn_local(listener.serve());
    local.run_until(async {
        let refused = ask(address, "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        let list = ask(address, "GET /api/v1/pods HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n").await;
        assert!(list.starts_with("HTTP/1.1 200") && list.contains("\"name\":\"a\""), "{list}");
        let watch = "GET /api/v1/pods?watch=true&timeoutSeconds=1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer secret\r\nConnection: close\r\n\r\n";
        let events = ask(address, watch).await;
        assert!(events.contains("{\"type\":\"ADDED\",\"object\":"), "{events}");
    }).await;
}

#[tokio::test]
async fn kube_s_own_client_lists_and_watches_over_the_socket() {
    use futures::StreamExt;
    use kube::api::{ListParams, WatchEvent, WatchParams};
    let server = server();
    let listener = Listener::bind(server.clone(), ([127, 0, 0, 1], 0).into(), None).await.unwrap();
    let address = listener.address().unwrap();
    let local = tokio::task::LocalSet::new();
    local.spawn_local(listener.serve());
    local
        .run_until(async move {
            let config = kube::Config::new(format!("http://{address}").parse().unwrap());
            let pods: Api<Pod> = Api::namespaced(kube::Client::try_from(config).unwrap(), "default");
            let list = pods.list(&ListParams::default()).await.unwrap();
            let version = list.metadata.resource_version.unwrap();
            let mut events = pods.watch(&WatchParams::default(), &version).await.unwrap().boxed();
            pods.create(&PostParams::default(), &pod("a")).await.unwrap();
            assert!(matches!(events.next().await, Some(Ok(WatchEvent::Added(_)))));
        })
        .await;
}
