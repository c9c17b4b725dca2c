//! The server: what it answers is what the program prints, and no question brings it down, takes all memory or goes on for ever.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;

/// A server that ends with the test.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    fn start(options: &[&str]) -> Server {
        let mut child = Command::new(assert_cmd::cargo::cargo_bin!("fabriscope"))
            .args(["serve", "--address", "127.0.0.1:0"])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches('/').to_owned();
        Server { child, address }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        stream
    }

    /// Sends a request as it is; gives the status and the body.
    fn raw(&self, request: &[u8]) -> (u16, String) {
        let mut stream = self.connect();
        // A server that refuses a request may close before all of it is written.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        (status, text.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.raw(format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address).as_bytes())
    }

    /// What a question gets: `answer` or `refused`, and its words.
    fn ask(&self, query: &str) -> (String, Value) {
        let (_, body) = self.get(&format!("/answer?{query}"));
        let reply: Value = serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"));
        let (kind, value) = reply.as_object().unwrap().iter().next().unwrap();
        (kind.clone(), value.clone())
    }

    fn refused(&self, query: &str) -> String {
        let (kind, value) = self.ask(query);
        assert_eq!(kind, "refused", "{query}");
        assert!(!value["help"].as_str().unwrap().is_empty(), "{query}: {value}");
        value["message"].as_str().unwrap().to_owned()
    }

    /// Processes that answer a question.
    fn workers(&self) -> Vec<String> {
        let own = self.child.id().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let stats = processes.filter_map(|entry| Some((entry.file_name(), std::fs::read_to_string(entry.path().join("stat")).ok()?)));
        // The fields behind the name: state, parent. One that has ended and is not yet buried answers nothing.
        let answers = |stat: &str| {
            let mut fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
            fields.next() != Some("Z") && fields.next() == Some(own.as_str())
        };
        stats.filter(|(_, stat)| answers(stat)).map(|(name, _)| name.to_string_lossy().into_owned()).collect()
    }

    /// Waits until so many processes answer.
    fn until_workers(&self, count: usize) {
        while self.workers().len() != count {
            pause();
        }
    }
}

/// Lets a process of the system get on.
#[expect(clippy::disallowed_methods, reason = "a real server is waited for")]
fn pause() {
    std::thread::sleep(Duration::from_millis(5));
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[test]
fn an_answer_is_what_the_program_prints() {
    let server = Server::start(&[]);
    let (status, page) = server.get("/");
    assert_eq!(status, 200);
    assert!(page.contains("<option value=\"ri2\">") && !page.contains("{{"));
    for query in
        ["cluster=ri2&tool=ib_write_lat&options=-a+-n+50", "cluster=lab-16&tool=osu_allreduce&options=-m+8:64&nodes=4&ranks=2&seed=3"]
    {
        let (kind, answer) = server.ask(query);
        assert_eq!(kind, "answer", "{answer}");
        let line: &[&str] = if query.contains("ib_write_lat") {
            &["bench", "ib_write_lat", "--on", "ri2", "-a", "-n", "50"]
        } else {
            &["--seed", "3", "bench", "--nodes", "4", "--ppn", "2", "osu_allreduce", "--on", "lab-16", "-m", "8:64"]
        };
        let printed = Command::new(assert_cmd::cargo::cargo_bin!("fabriscope")).args(line).output().unwrap();
        assert_eq!(answer["text"].as_str().unwrap(), String::from_utf8(printed.stdout).unwrap(), "{query}");
        // The second time it is at hand, and the same.
        assert_eq!(server.ask(query).1, answer);
    }
}

#[test]
fn bad_requests_are_told_and_leave_the_server_as_it_was() {
    let server = Server::start(&["--waiting", "8"]);
    assert!(server.refused("").starts_with("no cluster"));
    assert!(server.refused("cluster=ri2&tool=osu_bw&options=%00").contains("cannot be seen"));
    assert!(server.refused("cluster=/etc/passwd&tool=osu_bw").contains("no cluster of the catalogue"));
    assert!(server.refused("cluster=ri2&tool=osu_bw&options=-m+1:x").contains("not `x`"));
    assert!(server.refused(&format!("cluster=ri2&tool={}", "x".repeat(8000))).contains("characters"));
    assert!(server.refused("cluster=ri2&tool=%FF%FE").contains("tool"));
    assert_eq!(server.get("/../../etc/passwd").0, 404);
    let post = format!("POST /answer HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", server.address);
    assert_eq!(server.raw(post.as_bytes()).0, 405);
    // A page of another site that was led here.
    assert_eq!(server.raw(b"GET / HTTP/1.1\r\nHost: example.org\r\nConnection: close\r\n\r\n").0, 421);
    for garbage in [&b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"[..], b"GET\r\n\r\n", &[b'a'; 100_000]] {
        // Some are not even answered.
        let mut stream = server.connect();
        let _ = stream.write_all(garbage);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    // Connections that say nothing hold nobody up.
    let silent: Vec<TcpStream> = (0..20).map(|_| server.connect()).collect();
    assert_eq!(server.ask("cluster=ri2&tool=ib_write_lat&options=-n+10").0, "answer");
    drop(silent);
}

#[test]
fn fifty_questions_at_once_are_answered_two_at_a_time() {
    let server = Server::start(&["--cores", "2"]);
    let most = std::thread::scope(|scope| {
        let ask = |number: usize| {
            scope.spawn({
                let server = &server;
                move || server.ask(&format!("cluster=ri2&tool=osu_latency&options=-m+{0}:{0}+-i+10", 8 + number)).0
            })
        };
        let asked: Vec<_> = (0..50).map(ask).collect();
        let mut most = 0;
        while !asked.iter().all(|one| one.is_finished()) {
            most = most.max(server.workers().len());
            pause();
        }
        assert!(asked.into_iter().all(|one| one.join().unwrap() == "answer"));
        most
    });
    assert!((1..=2).contains(&most), "{most} processes at once");
}

#[test]
fn more_than_can_wait_are_turned_away() {
    let server = Server::start(&["--cores", "1", "--waiting", "1"]);
    let (status, body) = std::thread::scope(|scope| {
        let long = scope.spawn(|| server.ask(LONG));
        server.until_workers(1);
        let turned_away = server.get("/answer?cluster=ri2&tool=osu_bw");
        // Nobody waits for the long one.
        drop(server.get("/"));
        for process in server.workers() {
            Command::new("kill").args(["-9", &process]).status().unwrap();
        }
        // The end of its process is told, and the server goes on.
        assert_eq!(long.join().unwrap().0, "refused");
        turned_away
    });
    assert_eq!(status, 503);
    assert!(body.contains("waiting already"), "{body}");
    assert_eq!(server.ask("cluster=ri2&tool=ib_write_lat&options=-n+10").0, "answer");
}

#[test]
fn a_question_takes_neither_all_memory_nor_all_time() {
    let server = Server::start(&["--memory", "300MiB"]);
    let told = server.refused(LARGE);
    assert!(told.contains("needs about") && told.contains("300 MiB"), "{told}");
    assert_eq!(server.ask("cluster=ri2&tool=ib_write_lat&options=-n+10").0, "answer");
    // What nobody estimated is ended by the system.
    let server = Server::start(&["--memory", "48MiB"]);
    assert_eq!(server.refused("cluster=lab-1024&tool=osu_alltoall&nodes=64&ranks=8"), "the answer takes more than 48 MiB of memory");
    let server = Server::start(&["--timeout", "1s"]);
    assert_eq!(server.refused(LONG), "there is no answer after 1 s");
    server.until_workers(0);
}

#[test]
fn who_goes_away_ends_the_answer() {
    let server = Server::start(&["--cores", "1"]);
    let mut stream = server.connect();
    write!(stream, "GET /answer?{LONG} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address).unwrap();
    server.until_workers(1);
    drop(stream);
    // The next one has its turn, long before the first would have been through.
    assert_eq!(server.ask("cluster=ri2&tool=ib_write_lat&options=-n+10").0, "answer");
    server.until_workers(0);
}

/// Takes minutes.
const LONG: &str = "view=links&cluster=lab-1024&pattern=all_to_all&bytes=1M";
/// Takes gigabytes, and gets there soon.
const LARGE: &str = "view=links&cluster=lab-1024&pattern=all_to_all&bytes=64K";
