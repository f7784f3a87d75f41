//! The two proxies: spinney, and nginx as the cheapest one there is.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tokio::net::TcpStream;

use super::process::{Process, log_tail, output, peak_rss_mb};

/// The kernel counts processor time for /proc in ticks of 1/100 s, whatever its own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// A running proxy and the `host:port` at which it listens.
pub struct Proxy {
    pub process: Process,
    pub authority: String,
}

impl Proxy {
    /// User and system time that the process has used so far, in seconds.
    pub fn cpu_seconds(&self) -> anyhow::Result<f64> {
        let path = format!("/proc/{}/stat", self.process.child.id());
        let stat = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        // The second field, the name in parentheses, may hold spaces; user and system time are fields 14 and 15.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks = times.map(str::parse::<u64>).sum::<Result<u64, _>>()?;
        Ok(ticks as f64 / TICKS_PER_SECOND)
    }

    /// The most memory that the process has held so far, in megabytes.
    pub fn peak_rss_mb(&self) -> anyhow::Result<f64> {
        peak_rss_mb(self.process.child.id()).context("the proxy shows no VmHWM: it has ended")
    }
}

/// Starts `spinney serve` for the indices `bench-*` in front of the cluster at `upstream`, with `more` options. Nothing
/// is counted in the background, which would be the server's work.
pub async fn spinney(
    program: &Path,
    work: &Path,
    upstream: &str,
    method: &str,
    more: &[&str],
) -> anyhow::Result<Proxy> {
    let mut command = Command::new(program);
    // What signs if it is told to; any will do for a server that does not look.
    command
        .envs([("AWS_ACCESS_KEY_ID", "bench"), ("AWS_SECRET_ACCESS_KEY", "bench")])
        .args(["serve", "--upstream", upstream, "--index", "bench-*"])
        .args(["--counts", "off"])
        .args(more)
        .args(["--title-field", "title", "--text-field", "content"])
        .args(["--method", method]);
    serve(&mut command, work, "spinney").await
}

/// Runs a command that ends in `spinney serve` and its arguments, on a free port; what it says stands in `NAME.out` and
/// `NAME.log`.
pub async fn serve(command: &mut Command, work: &Path, name: &str) -> anyhow::Result<Proxy> {
    let (out, log) = (work.join(format!("{name}.out")), work.join(format!("{name}.log")));
    command.args(["--listen", "127.0.0.1:0"]).stdin(Stdio::null()).stdout(output(&out)?).stderr(output(&log)?);
    let mut process = Process::start(command)?;
    let listening = async || {
        let said = fs::read_to_string(&out).ok()?;
        let line = said.lines().find(|line| line.contains("listening on http://"))?;
        // The line may still be half written: it counts once its end is there.
        said.ends_with('\n').then(|| line.rsplit("http://").next().map(str::to_owned)).flatten()
    };
    let authority = wait_until(&mut process, &log, "spinney", listening).await?;
    Ok(Proxy { process, authority })
}

/// Installs the stamp's templates for the indices `bench-*`.
pub fn setup(program: &Path, work: &Path, upstream: &str) -> anyhow::Result<()> {
    let log = work.join("setup.log");
    let mut command = Command::new(program);
    command.args(["setup", "--upstream", upstream, "--index", "bench-*"]).stdin(Stdio::null());
    command.stdout(Stdio::null()).stderr(output(&log)?);
    let status = Process::start(&mut command)?.child.wait()?;
    if !status.success() {
        bail!("spinney setup ended with {status}:\n{}", log_tail(&log));
    }
    Ok(())
}

/// Starts nginx in front of the cluster at `upstream` (`host:port`), set up to be as fast as it can: one worker, no
/// access log, connections kept open on both sides, bodies and answers held in memory and never written to disk.
pub async fn nginx(program: &Path, work: &Path, upstream: &str) -> anyhow::Result<Proxy> {
    let directory = work.join("nginx");
    fs::create_dir_all(&directory)?;
    let port = free_port()?;
    let home = directory.display();
    let config = format!(
        "daemon off;
worker_processes 1;
pid {home}/nginx.pid;
error_log {home}/error.log warn;
events {{ worker_connections 512; }}
http {{
  access_log off;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  client_max_body_size 100m;
  client_body_buffer_size 16m;
  keepalive_requests 1000000;
  tcp_nodelay on;
  upstream cluster {{
    server {upstream};
    keepalive 64;
    keepalive_requests 1000000;
  }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://cluster;
      proxy_http_version 1.1;
      proxy_set_header Connection \"\";
      proxy_buffer_size 16k;
      proxy_buffers 64 32k;
      proxy_busy_buffers_size 512k;
      proxy_max_temp_file_size 0;
      proxy_read_timeout 300s;
    }}
  }}
}}
"
    );
    let (config_file, log) = (directory.join("nginx.conf"), directory.join("error.log"));
    fs::write(&config_file, config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&directory).arg("-c").arg(&config_file).arg("-e").arg(&log);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(output(&directory.join("nginx.err"))?);
    let mut process = Process::start(&mut command)?;
    let authority = format!("127.0.0.1:{port}");
    let connects = async || TcpStream::connect(&authority).await.ok();
    wait_until(&mut process, &log, "nginx", connects).await?;
    Ok(Proxy { process, authority })
}

/// nginx cannot choose a port itself; one that was free a moment ago has to do.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

/// Waits until `ready` finds what it looks for; an error when the process ends before or a minute has gone.
async fn wait_until<T>(
    process: &mut Process,
    log: &Path,
    what: &str,
    mut ready: impl AsyncFnMut() -> Option<T>,
) -> anyhow::Result<T> {
    let started = Instant::now();
    while started.elapsed() < Duration::from_secs(60) {
        if let Some(found) = ready().await {
            return Ok(found);
        }
        if let Some(status) = process.child.try_wait()? {
            bail!("{what} ended with {status} before it was ready:\n{}", log_tail(log));
        }
        #[expect(clippy::disallowed_methods, reason = "a pause between two looks at a server that starts")]
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    bail!("{what} was not ready within a minute:\n{}", log_tail(log))
}
