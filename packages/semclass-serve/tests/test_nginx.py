"""docs/nginx.conf before the service: TLS, sizes, slow clients and floods stay away from it."""

import concurrent.futures
import shutil
import socket
import ssl
import subprocess
import time
from pathlib import Path

import httpx
import pytest
from serving import serving

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/bin")
HOST = "search.example.org"
CONFIG = Path(__file__).parent.parent / "docs" / "nginx.conf"
BODY = {"query": "Who built it?", "documents": ["Ada built it.", "It is old."]}

pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx-light"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def listens(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    """The service, and the ports of nginx for TLS and for plain HTTP."""
    folder = tmp_path_factory.mktemp("nginx")
    secure, plain = free_port(), free_port()
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST},IP:127.0.0.1", "-days", "1"]
    command += ["-keyout", folder / "search.key", "-out", folder / "search.crt"]
    subprocess.run(command, check=True, capture_output=True)
    with serving("--allow-host", HOST) as service:
        text = CONFIG.read_text()
        for old, new in {
            "listen 443": f"listen 127.0.0.1:{secure}",
            "listen 80": f"listen 127.0.0.1:{plain}",
            "127.0.0.1:8080": f"127.0.0.1:{service.port}",
            "/etc/nginx/search": str(folder / "search"),
            "client_header_timeout 10s": "client_header_timeout 1s",
            "client_body_timeout 15s": "client_body_timeout 1s",
        }.items():
            assert old in text
            text = text.replace(old, new)
        (folder / "nginx.conf").write_text(text)
        command = [NGINX, "-p", folder, "-c", folder / "nginx.conf", "-g", "daemon off;"]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            end = time.monotonic() + 20
            while not listens(secure):
                assert process.poll() is None, process.stderr.read()
                assert time.monotonic() < end
                time.sleep(0.05)
            yield service, folder, secure, plain
            process.terminate()


@pytest.fixture
def client(proxy):
    _, folder, secure, _ = proxy
    context = ssl.create_default_context(cafile=folder / "search.crt")
    headers = {"host": HOST}
    with httpx.Client(base_url=f"https://127.0.0.1:{secure}", verify=context, headers=headers, timeout=60) as client:
        yield client


def connect(proxy):
    """An encrypted connection as of a client of one's own."""
    _, folder, secure, _ = proxy
    context = ssl.create_default_context(cafile=folder / "search.crt")
    return context.wrap_socket(socket.create_connection(("127.0.0.1", secure), 20), server_hostname=HOST)


def requests_of(service):
    """Number of requests that the service has answered."""
    text = httpx.get(f"http://127.0.0.1:{service.port}/metrics", headers={"host": HOST}).text
    lines = [line for line in text.splitlines() if line.startswith("semclass_requests_total{") and "/v2/" in line]
    return sum(float(line.split()[-1]) for line in lines)


def test_requests_reach_the_service_over_tls(proxy, client):
    answer = client.post("/v2/rerank", json=BODY)
    assert answer.status_code == 200
    assert answer.json()["results"][0]["index"] == 0
    assert len(answer.headers["x-request-id"]) == 32
    assert client.get("/metrics").status_code == 403
    plain = httpx.get(f"http://127.0.0.1:{proxy[3]}/api/info", headers={"host": HOST})
    assert (plain.status_code, plain.headers["location"]) == (301, f"https://{HOST}/api/info")


def test_a_large_body_is_refused_before_the_service(proxy, client):
    before = requests_of(proxy[0])
    assert client.post("/v2/rerank", content=b"x" * (4 * 2**20 + 1)).status_code == 413
    assert requests_of(proxy[0]) == before


@pytest.mark.parametrize("whole_head", [False, True], ids=["head", "body"])
def test_a_slow_client_is_cut_off_before_the_service(proxy, whole_head):
    before = requests_of(proxy[0])
    with connect(proxy) as connection:
        head = f"POST /v2/rerank HTTP/1.1\r\nHost: {HOST}\r\n"
        rest = "Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{" if whole_head else ""
        connection.sendall((head + rest).encode())
        try:
            answer = connection.recv(4096)
        except OSError:  # reset
            answer = b""
        assert answer == b"" or b" 408 " in answer
    assert requests_of(proxy[0]) == before


def test_a_flood_of_one_client_is_limited(proxy):
    def hold(_):
        with connect(proxy) as connection:
            head = f"POST /v2/rerank HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10\r\n\r\n"
            connection.sendall(head.encode())  # and no body
            try:
                return connection.recv(4096)[:12]
            except OSError:
                return b""

    before = requests_of(proxy[0])
    with concurrent.futures.ThreadPoolExecutor(64) as pool:
        answers = list(pool.map(hold, range(64)))
    assert answers.count(b"HTTP/1.1 429") >= 1
    assert requests_of(proxy[0]) == before
