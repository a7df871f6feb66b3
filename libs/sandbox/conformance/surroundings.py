"""Prints the surroundings of a program as JSON (`Surroundings` in themes/surroundings.ts)."""
import http.client, http.server, json, locale, os, resource, socket, sys, tempfile, threading, time

def tried(what):
    try:
        return what()
    except (OSError, locale.Error):
        return None

def can_write(folder):
    path = os.path.join(folder, 'probe-%d' % os.getpid())
    try:
        open(path, 'w').close()
        os.unlink(path)
        return True
    except OSError:
        return False

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'served')
    def log_message(self, *words):
        pass

def fetched():
    with http.server.HTTPServer(('localhost', 0), Handler) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        connection = http.client.HTTPConnection('localhost', server.server_address[1], timeout=10)
        connection.request('GET', '/')
        return connection.getresponse().read().decode()

def threads(most):
    over = threading.Event()
    made = []
    try:
        for _ in range(most):
            thread = threading.Thread(target=over.wait)
            thread.start()
            made.append(thread)
    except RuntimeError:
        pass
    over.set()
    for thread in made:
        thread.join()
    return len(made)

def linked():
    with open('given', 'w') as out:
        out.write('of the work directory')
    with open('/mnt/data/given') as source:
        return source.read()

def outputs_and_memory():
    os.makedirs('.session/outputs')
    os.makedirs('.session/memory')
    for path in ('/mnt/session/outputs/given', '/mnt/memory/given'):
        with open(path, 'w') as out:
            out.write(path)
    return [open(path).read() for path in ('.session/outputs/given', '.session/memory/given')]

def shm_bytes():
    shm = os.statvfs('/dev/shm')
    return shm.f_blocks * shm.f_frsize

home = os.environ['HOME']
print(json.dumps({
    'host_name': socket.gethostname(),
    'localhost': tried(lambda: socket.gethostbyname('localhost')),
    'own_name': tried(lambda: socket.gethostbyname(socket.gethostname())),
    'fetched': tried(fetched),
    'open_files': resource.getrlimit(resource.RLIMIT_NOFILE),
    'threads': threads(100),
    'encoding': sys.stdout.encoding,
    'locale': tried(lambda: locale.setlocale(locale.LC_ALL, '')),
    'zone': time.tzname[0],
    'home': home,
    'temporary': tempfile.gettempdir(),
    'work': os.getcwd(),
    'writable': {folder: can_write(folder) for folder in (home, tempfile.gettempdir(), '/var/tmp', '/mnt/data')},
    'data': tried(linked),
    'linked': tried(outputs_and_memory),
    'shm_bytes': tried(shm_bytes),
}))
