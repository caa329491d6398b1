//! The server on a real socket.
use super::*;
use crate::apiserver::{ActionsByPath, Listener, PagesByPath, TlsIdentity};
use std::sync::Arc;
use std::time::Duration;
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
async fn outside_client_is_served_with_the_token_and_refused_without() {
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

/// A listener on a free port, served for as long as `then` takes.
async fn served<T>(listener: Listener, then: impl AsyncFnOnce(std::net::SocketAddr) -> T) -> T {
    let address = listener.address().unwrap();
    let local = tokio::task::LocalSet::new();
    local.spawn_local(listener.serve());
    local.run_until(then(address)).await
}

async fn listener(token: Option<&str>) -> Listener {
    Listener::bind(server(), ([127, 0, 0, 1], 0).into(), token.map(str::to_owned)).await.unwrap()
}

#[tokio::test]
async fn without_a_token_only_this_machine_by_its_own_name_is_let_in() {
    served(listener(None).await, async |address| {
        let asked = async |host: &str, more: &str| {
            let answer =
                ask(address, &format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\n{more}Connection: close\r\n\r\n")).await;
            answer.split_whitespace().nth(1).unwrap().to_owned()
        };
        for host in ["127.0.0.1:80", "localhost:6443", "localhost", "[::1]:80"] {
            assert_eq!(asked(host, "").await, "200", "{host}");
        }
        for host in ["evil.example:80", "127.0.0.1.evil.example", ""] {
            assert_eq!(asked(host, "").await, "403", "{host}");
        }
        assert_eq!(asked("localhost", "Origin: https://evil.example\r\n").await, "403");
        assert_eq!(asked("localhost:80", "Origin: http://localhost:80\r\n").await, "200");
    })
    .await;
}

#[tokio::test]
async fn the_token_is_taken_as_a_password_too() {
    served(listener(Some("a-long-enough-token")).await, async |address| {
        let asked = async |how: &str| {
            ask(address, &format!("GET /readyz HTTP/1.1\r\nHost: x\r\n{how}Connection: close\r\n\r\n")).await
        };
        // any:a-long-enough-token
        assert!(asked("Authorization: Basic YW55OmEtbG9uZy1lbm91Z2gtdG9rZW4=\r\n").await.starts_with("HTTP/1.1 200"));
        let refused = asked("Authorization: Basic YW55Om90aGVy\r\n").await;
        assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("www-authenticate: Basic"), "{refused}");
    })
    .await;
}

#[tokio::test]
async fn a_page_is_shown_to_who_reads_and_paths_to_who_parses() {
    let pages: PagesByPath = Arc::new(|path: &str, _: &str| {
        let page = (path == "/").then(|| ("text/html", bytes::Bytes::from_static(b"<p>hello")));
        Box::pin(std::future::ready(page))
    });
    served(listener(None).await.with_pages(pages), async |address| {
        let asked = async |accept: &str| {
            ask(address, &format!("GET / HTTP/1.1\r\nHost: localhost\r\nAccept: {accept}\r\nConnection: close\r\n\r\n"))
                .await
        };
        assert!(asked("text/html,*/*").await.ends_with("<p>hello"));
        assert!(asked("application/json").await.contains("/apis/apps/v1"));
    })
    .await;
}

#[tokio::test]
async fn console_acts_from_its_own_page_alone() {
    let actions: ActionsByPath = Arc::new(|asked: &str| {
        let said = asked.strip_prefix("/act?").map(|what| match what {
            "well" => Ok(b"done".to_vec()),
            _ => Err(format!("{what} is no action")),
        });
        said.map(|said| Box::pin(std::future::ready(said)) as _)
    });
    served(listener(None).await.with_actions(actions), async |address| {
        let asked = async |what: &str, how: &str| {
            let own = "Host: localhost:80\r\nContent-Length: 0\r\nConnection: close\r\n";
            ask(address, &format!("POST {what} HTTP/1.1\r\n{own}{how}\r\n")).await
        };
        let own = "X-Dovetail-Console: 1\r\nOrigin: http://localhost:80\r\n";
        assert!(asked("/act?well", own).await.ends_with("done"));
        let refused = asked("/act?ill", own).await;
        assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("ill is no action"), "{refused}");
        for other in ["", "Origin: http://localhost:80\r\n", "X-Dovetail-Console: 1\r\nOrigin: http://localhost:81\r\n"]
        {
            assert!(asked("/act?well", other).await.starts_with("HTTP/1.1 403"), "{other}");
        }
        assert!(asked("/readyz", own).await.starts_with("HTTP/1.1 405"), "the API's own paths are the API's");
    })
    .await;
}

#[tokio::test]
async fn a_body_that_is_too_large_is_refused_once_it_has_been_written() {
    served(listener(None).await, async |address| {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let head =
            "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5000000\r\n\r\n";
        stream.write_all(head.as_bytes()).await.unwrap();
        // A client that still writes does not read the refusal: the server reads to the end and keeps nothing.
        let chunk = vec![b' '; 50_000];
        for _ in 0..100 {
            stream.write_all(&chunk).await.unwrap();
        }
        let mut answer = vec![0; 4096];
        let read = stream.read(&mut answer).await.unwrap();
        assert!(answer[..read].starts_with(b"HTTP/1.1 413"), "{}", String::from_utf8_lossy(&answer[..read]));
    })
    .await;
}

#[tokio::test]
async fn kube_client_speaks_tls_to_the_identity_it_was_given() {
    use kube::api::ListParams;
    let identity = TlsIdentity::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    served(listener(Some("a-long-enough-token")).await.with_tls(&identity), async |address| {
        let text = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, clusters: [{{name: a, cluster: {{server: 'https://{address}', certificate-authority-data: {}}}}}], \
             contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{token: a-long-enough-token}}}}]}}",
            identity.authority()
        );
        let kubeconfig = kube::config::Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        let pods: Api<Pod> = Api::all(kube::Client::try_from(config).unwrap());
        assert!(pods.list(&ListParams::default()).await.unwrap().items.is_empty());
        // Without TLS nothing is said.
        assert!(!ask_or_nothing(address, "GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.contains("200"));
    })
    .await;
}

/// The bytes that come back until the connection ends, whichever way.
async fn ask_or_nothing(address: std::net::SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn http2_is_spoken_to_who_begins_with_it() {
    served(listener(None).await, async |address| {
        let stream = hyper_util::rt::TokioIo::new(TcpStream::connect(address).await.unwrap());
        let (mut sender, connection) =
            hyper::client::conn::http2::handshake(hyper_util::rt::TokioExecutor::new(), stream).await.unwrap();
        tokio::task::spawn_local(connection);
        let ask = |path: &str| {
            let request = http::Request::get(format!("http://localhost{path}"));
            request.body(http_body_util::Empty::<bytes::Bytes>::new()).unwrap()
        };
        let (one, two) = (sender.send_request(ask("/readyz")), sender.clone().send_request(ask("/version")));
        assert_eq!(
            (one.await.unwrap().status(), two.await.unwrap().status()),
            (http::StatusCode::OK, http::StatusCode::OK)
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn connections_that_say_nothing_or_half_of_something_are_closed() {
    served(listener(None).await, async |address| {
        for said in [
            "",
            "PRI * HT",
            "GET /readyz HT",
            "GET /readyz HTTP/1.1\r\nHost: localhost\r\n",
            "POST /api/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{",
        ] {
            let answer = tokio::time::timeout(Duration::from_secs(300), ask_or_nothing(address, said)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{said:?} holds its connection"));
            assert!(!answer.contains("200 OK"), "{said:?}: {answer}");
        }
    })
    .await;
}
