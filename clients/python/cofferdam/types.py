"""The shapes of the API's JSON. Written by generate-types.ts from /openapi.json."""
from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


class _ExecutionRequestProgramScriptRequired(TypedDict):
    type: Literal["script"]
    """Run source code."""
    language: Literal["python", "javascript", "typescript", "bash"]
    """The language of source."""
    source: str
    """The code, at most 1 MiB in UTF-8. Send larger programs as files."""


class ExecutionRequestProgramScript(_ExecutionRequestProgramScriptRequired, total=False):
    argv: list[str]
    """Arguments of the script, at most 256 of 128 KiB each. Default: none."""


class _ExecutionRequestProgramCommandRequired(TypedDict):
    type: Literal["command"]
    """Run a command."""


class ExecutionRequestProgramCommand(_ExecutionRequestProgramCommandRequired, total=False):
    argv: list[str]
    """The command and its arguments, without a shell. Give either this or shell."""
    shell: str
    """A line for bash, at most 1 MiB. Give either this or argv."""


class _ExecutionRequestProgramTestsRequired(TypedDict):
    type: Literal["tests"]
    """Run a test suite and report each failure."""


class ExecutionRequestProgramTests(_ExecutionRequestProgramTestsRequired, total=False):
    framework: Literal["pytest", "unittest", "jest", "vitest", "mocha", "node:test", "go", "cargo", "npm"]
    """The test framework. Default: detected from the files in the work directory."""
    command: str
    """Shell command that runs the tests instead, at most 128 KiB. Its output is parsed
    if it has a known format. Default: that of the framework."""
    path: str
    """Project folder, or one test file. Default: the work directory."""


class _ExecutionRequestProgramInstallRequired(TypedDict):
    type: Literal["install"]
    """Install the dependencies of a project."""


class ExecutionRequestProgramInstall(_ExecutionRequestProgramInstallRequired, total=False):
    manager: Literal["pip", "npm", "yarn", "pnpm"]
    """The package manager. Default: detected from the manifest or lock file."""
    path: str
    """Folder of the manifest. Default: the work directory."""


class _ExecutionRequestProgramFilesRequired(TypedDict):
    type: Literal["files"]
    """Work on the files of a session, in order with its executions. Runs no user code."""
    op: Literal["list", "read", "write", "remove", "collect", "pause", "resume", "fork", "end"]
    """write stores the files of the request. list returns paths and sizes as the value.
    remove deletes the file at path. read makes it an artifact. collect does so with
    every regular file below path, within limits.artifact_*. pause saves the session to
    disk, resume starts it again, and fork makes paused copies of it. end destroys the
    session."""


class ExecutionRequestProgramFiles(_ExecutionRequestProgramFilesRequired, total=False):
    keys: list[str]
    """Only for fork: the keys of 1 to 16 new sessions."""
    path: str
    """The file for read and remove, or the folder for collect and list. Default of
    list: the work directory."""


class _ExecutionRequestFilesItemRequired(TypedDict):
    path: str
    """Relative to the work directory. Missing folders are created."""


class ExecutionRequestFilesItem(_ExecutionRequestFilesItemRequired, total=False):
    content: str
    """The file as text, at most 8 MiB in UTF-8. Give either this or content_base64."""
    content_base64: str
    """The file in base64, at most 8 MiB when decoded. Give either this or content."""
    executable: bool
    """Whether it may be executed. Default: false."""


class _ExecutionRequestSessionRequired(TypedDict):
    key: str
    """Names the session within its tenant and backend. The first use creates it."""


class ExecutionRequestSession(_ExecutionRequestSessionRequired, total=False):
    """Run in this session, so that executions share a sandbox one after the other.
    Default: none."""
    scope: Literal["none", "files", "interpreter", "processes"]
    """What the next execution of the session finds: files (default), also the
    interpreter, also background processes, or nothing (none). Everything else is wiped."""
    idle_ms: int
    """The session ends after it was idle for this long, milliseconds. Default: the
    worker’s warm.cells.idle_ms, 300,000."""
    must_exist: bool
    """Refuse with session_not_found, uncharged, instead of starting a new session.
    Default: false."""


class ExecutionRequestLimits(TypedDict, total=False):
    """Deadlines, memory and other limits. Default: the default of each."""
    soft_timeout_ms: int
    """Soft deadline, milliseconds: the program is asked to stop, and its output is
    kept. Default: hard_timeout_ms less 5,000, but at least half of it; 25,000 if
    neither is given."""
    hard_timeout_ms: int
    """Hard deadline, milliseconds: the whole process tree is killed. At most 1 hour, or
    24 hours with lane routine. Default: 5,000 after the soft deadline; 30,000 if
    neither is given."""
    heartbeat_timeout_ms: int
    """Longest time without a progress report, milliseconds. After it, the program is
    asked to stop, and 5 s later it is killed. Default: no limit."""
    cpu_time_ms: int
    """CPU time of all processes together, milliseconds, in addition to the deadlines.
    Default: no limit."""
    memory_mib: int
    """Memory of all processes together, MiB. Beyond it, the execution ends oom.
    Default: 256."""
    cpus: float
    """Processors that may be used at once. A fraction slows the program down. Default:
    1."""
    pids: int
    """Processes and threads at one time. Default: 128."""
    disk_mib: int
    """Files that the program may write, MiB. A container’s disk is part of its memory.
    Default: 64."""
    stdout_bytes: int
    """Bytes of stdout in the result: its head. The full output is fetched separately.
    Default: 262,144."""
    stderr_bytes: int
    """Bytes of stderr in the result: its tail. The full output is fetched separately.
    Default: 32,768."""
    on_output_limit: Literal["truncate", "kill"]
    """What happens beyond stdout_bytes or stderr_bytes: the output is cut, or the
    program is killed. Default: truncate."""
    artifact_bytes: int
    """Size of the largest artifact, bytes. A value above the default must be allowed by
    the policy of the tenant. The same holds for artifacts_total_bytes and
    artifact_count. Default: 8,388,608."""
    artifacts_total_bytes: int
    """Size of all artifacts together, bytes. Default: 16,777,216."""
    artifact_count: int
    """Number of artifacts. Default: 256."""


class ExecutionRequestNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class ExecutionRequestRetry(TypedDict):
    """When to attempt the execution again. Default: never."""
    max_attempts: int
    """The most attempts in all, the first one included. Each is charged and audited."""
    on: list[Literal["worker_lost", "sandbox_lost", "provisioning", "error", "crashed", "soft_timeout", "hard_timeout", "oom"]]
    """Endings after which it is attempted again. worker_lost, sandbox_lost and
    provisioning are failures of the platform: name them if the program has no effects
    outside the sandbox. Name the others if the program can resume."""


class ExecutionRequestCheckpoint(TypedDict, total=False):
    """Keep files of an attempt for the next one. Default: an attempt starts without
    them."""
    globs: list[str]
    """Files that are kept, at most 256 files and 16 MiB in all. Default: checkpoint/**."""
    every_ms: int
    """Interval of saves while the program runs, milliseconds. Default: saved only at
    the end of an attempt."""


class _ExecutionRequestWorkspaceRulesItemRequired(TypedDict):
    pattern: str
    """Paths from the root of the workspace. `*` stays within a name, `**` crosses
    folders. A folder means everything in it."""
    direction: Literal["both", "in", "out", "never"]
    """both: copied in and merged back. in: only into sandboxes. out: only out of them.
    never: neither."""


class ExecutionRequestWorkspaceRulesItem(_ExecutionRequestWorkspaceRulesItemRequired, total=False):
    control: bool
    """Lets sandboxes write files that control programs outside of them, such as
    mcp_servers.json. Default: false."""


class _ExecutionRequestWorkspaceRequired(TypedDict):
    name: str
    """A workspace of the tenant. It need not exist yet."""


class ExecutionRequestWorkspace(_ExecutionRequestWorkspaceRequired, total=False):
    """Files of the tenant that are copied into the work directory, and merged back.
    Default: none."""
    on_conflict: Literal["keep-both", "fail", "host-wins", "sandbox-wins"]
    """What happens to a file that both sides changed: keep both versions, fail the
    merge, or let the workspace (host-wins) or the sandbox (sandbox-wins) win. Default:
    keep-both."""
    rules: list[ExecutionRequestWorkspaceRulesItem]
    """The first rule that matches a path decides. A path that matches none is not
    copied. Default: all files both ways."""


class _ExecutionRequestRequired(TypedDict):
    tenant_id: str
    """The tenant that the execution belongs to, and whose policy and caps apply."""
    agent_id: str
    """The agent that asks. It has an hourly cap of its own."""
    program: Union[ExecutionRequestProgramScript, ExecutionRequestProgramCommand, ExecutionRequestProgramTests, ExecutionRequestProgramInstall, ExecutionRequestProgramFiles]
    """What to run."""


class ExecutionRequest(_ExecutionRequestRequired, total=False):
    """What to run, where, and within which limits."""
    idempotency_key: str
    """Makes repeating the request harmless. For 24 hours, the same key with the same
    body names the same execution; with another body the answer is 409. Default: none."""
    user_id: str
    """The user on whose behalf the agent works. Only for the audit row. Default: none."""
    run_id: str
    """The turn of the agent. For the audit row, and to share one session if the policy
    has run_sessions. Default: none."""
    tool_call_id: str
    """The tool call that this execution answers. Only for the audit row. Default: none."""
    template_id: str
    """The template whose settings apply besides those of the tenant. Default: the one
    that the API key or the agent is bound to, if any."""
    stdin: str
    """Standard input of the program, at most 4 MiB in UTF-8. Default: empty."""
    files: list[ExecutionRequestFilesItem]
    """Files to put into the work directory: at most 1,000, and 16 MiB in all. Default:
    none."""
    env: dict[str, str]
    """Environment variables of the program: at most 128, with values of up to 32 KiB.
    Variables that change how programs start are dropped; the result names them.
    Default: none."""
    artifacts: list[str]
    """Patterns of files to return after the program has ended by itself. `*` and `?`
    stay within one folder, `**` crosses folders. Default: none."""
    session: ExecutionRequestSession
    """Run in this session, so that executions share a sandbox one after the other.
    Default: none."""
    limits: ExecutionRequestLimits
    """Deadlines, memory and other limits. Default: the default of each."""
    network: Union[Literal["none"], Literal["public"], ExecutionRequestNetwork]
    """What the program may reach, within the policy of the tenant: nothing (none, the
    default), public addresses (public), or the hosts of an allow-list."""
    environment: Literal["default-public", "internal-only"]
    """The environment of the tenant that it runs in. internal-only has no network.
    Default: default-public."""
    backend: str
    """The backend to run on, such as docker. auto: the first of the worker that fits.
    Default: auto."""
    min_isolation: Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"]
    """The weakest isolation to accept. The stronger of this and the policy of the
    tenant applies. Default: that policy."""
    reuse: Literal["job", "session", "tenant"]
    """Who may use the same sandbox: nobody else (job), the session, or other executions
    of the tenant after a wipe (tenant). Default: job, or session if there is a session."""
    preload: str
    """A preload set of the workers’ configuration, whose modules a warm interpreter has
    imported. Default: none."""
    lane: Literal["interactive", "routine"]
    """interactive: a deadline of at most 1 hour. routine: at most 24 hours, but only a
    part of the slots. Default: interactive."""
    priority: int
    """Order among the waiting executions of the same agent: higher goes first. Default:
    5."""
    delay_ms: int
    """Start it this much later at the earliest, milliseconds, at most 24 hours.
    Default: 0."""
    on_cap: Literal["reject", "defer"]
    """If a cap is used up: end with cap_exceeded (reject), or wait until it resets
    (defer). Default: reject."""
    retry: ExecutionRequestRetry
    """When to attempt the execution again. Default: never."""
    checkpoint: ExecutionRequestCheckpoint
    """Keep files of an attempt for the next one. Default: an attempt starts without
    them."""
    workspace: ExecutionRequestWorkspace
    """Files of the tenant that are copied into the work directory, and merged back.
    Default: none."""
    callback_url: str
    """Address that the result is posted to, signed with the callback secret of the
    tenant. Default: none."""
    invocation_source: Literal["queue", "chat", "scheduled", "composition"]
    """What started the execution. Only for the audit row. Default: queue."""
    traceparent: str
    """W3C trace context of the caller, so that the spans of the execution join its
    trace. Default: a new trace."""


class _RerunRequestEditProgramScriptRequired(TypedDict):
    type: Literal["script"]
    """Run source code."""
    language: Literal["python", "javascript", "typescript", "bash"]
    """The language of source."""
    source: str
    """The code, at most 1 MiB in UTF-8. Send larger programs as files."""


class RerunRequestEditProgramScript(_RerunRequestEditProgramScriptRequired, total=False):
    argv: list[str]
    """Arguments of the script, at most 256 of 128 KiB each. Default: none."""


class _RerunRequestEditProgramCommandRequired(TypedDict):
    type: Literal["command"]
    """Run a command."""


class RerunRequestEditProgramCommand(_RerunRequestEditProgramCommandRequired, total=False):
    argv: list[str]
    """The command and its arguments, without a shell. Give either this or shell."""
    shell: str
    """A line for bash, at most 1 MiB. Give either this or argv."""


class _RerunRequestEditProgramTestsRequired(TypedDict):
    type: Literal["tests"]
    """Run a test suite and report each failure."""


class RerunRequestEditProgramTests(_RerunRequestEditProgramTestsRequired, total=False):
    framework: Literal["pytest", "unittest", "jest", "vitest", "mocha", "node:test", "go", "cargo", "npm"]
    """The test framework. Default: detected from the files in the work directory."""
    command: str
    """Shell command that runs the tests instead, at most 128 KiB. Its output is parsed
    if it has a known format. Default: that of the framework."""
    path: str
    """Project folder, or one test file. Default: the work directory."""


class _RerunRequestEditProgramInstallRequired(TypedDict):
    type: Literal["install"]
    """Install the dependencies of a project."""


class RerunRequestEditProgramInstall(_RerunRequestEditProgramInstallRequired, total=False):
    manager: Literal["pip", "npm", "yarn", "pnpm"]
    """The package manager. Default: detected from the manifest or lock file."""
    path: str
    """Folder of the manifest. Default: the work directory."""


class _RerunRequestEditProgramFilesRequired(TypedDict):
    type: Literal["files"]
    """Work on the files of a session, in order with its executions. Runs no user code."""
    op: Literal["list", "read", "write", "remove", "collect", "pause", "resume", "fork", "end"]
    """write stores the files of the request. list returns paths and sizes as the value.
    remove deletes the file at path. read makes it an artifact. collect does so with
    every regular file below path, within limits.artifact_*. pause saves the session to
    disk, resume starts it again, and fork makes paused copies of it. end destroys the
    session."""


class RerunRequestEditProgramFiles(_RerunRequestEditProgramFilesRequired, total=False):
    keys: list[str]
    """Only for fork: the keys of 1 to 16 new sessions."""
    path: str
    """The file for read and remove, or the folder for collect and list. Default of
    list: the work directory."""


class _RerunRequestEditFilesItemRequired(TypedDict):
    path: str
    """Relative to the work directory. Missing folders are created."""


class RerunRequestEditFilesItem(_RerunRequestEditFilesItemRequired, total=False):
    content: str
    """The file as text, at most 8 MiB in UTF-8. Give either this or content_base64."""
    content_base64: str
    """The file in base64, at most 8 MiB when decoded. Give either this or content."""
    executable: bool
    """Whether it may be executed. Default: false."""


class _RerunRequestEditSessionRequired(TypedDict):
    key: str
    """Names the session within its tenant and backend. The first use creates it."""


class RerunRequestEditSession(_RerunRequestEditSessionRequired, total=False):
    scope: Literal["none", "files", "interpreter", "processes"]
    """What the next execution of the session finds: files (default), also the
    interpreter, also background processes, or nothing (none). Everything else is wiped."""
    idle_ms: int
    """The session ends after it was idle for this long, milliseconds. Default: the
    worker’s warm.cells.idle_ms, 300,000."""
    must_exist: bool
    """Refuse with session_not_found, uncharged, instead of starting a new session.
    Default: false."""


class _RerunRequestEditWorkspaceRulesItemRequired(TypedDict):
    pattern: str
    """Paths from the root of the workspace. `*` stays within a name, `**` crosses
    folders. A folder means everything in it."""
    direction: Literal["both", "in", "out", "never"]
    """both: copied in and merged back. in: only into sandboxes. out: only out of them.
    never: neither."""


class RerunRequestEditWorkspaceRulesItem(_RerunRequestEditWorkspaceRulesItemRequired, total=False):
    control: bool
    """Lets sandboxes write files that control programs outside of them, such as
    mcp_servers.json. Default: false."""


class _RerunRequestEditWorkspaceRequired(TypedDict):
    name: str
    """A workspace of the tenant. It need not exist yet."""


class RerunRequestEditWorkspace(_RerunRequestEditWorkspaceRequired, total=False):
    on_conflict: Literal["keep-both", "fail", "host-wins", "sandbox-wins"]
    """What happens to a file that both sides changed: keep both versions, fail the
    merge, or let the workspace (host-wins) or the sandbox (sandbox-wins) win. Default:
    keep-both."""
    rules: list[RerunRequestEditWorkspaceRulesItem]
    """The first rule that matches a path decides. A path that matches none is not
    copied. Default: all files both ways."""


class RerunRequestEditLimits(TypedDict, total=False):
    """Limits to change. If one deadline is given, the other one follows from it.
    Default: as it was."""
    soft_timeout_ms: Union[int, None]
    """Soft deadline, milliseconds: the program is asked to stop, and its output is
    kept. Null: the default of a request. Default: as it was."""
    hard_timeout_ms: Union[int, None]
    """Hard deadline, milliseconds: the whole process tree is killed. At most 1 hour, or
    24 hours with lane routine. Null: the default of a request. Default: as it was."""
    heartbeat_timeout_ms: Union[int, None]
    """Longest time without a progress report, milliseconds. After it, the program is
    asked to stop, and 5 s later it is killed. Null: the default of a request. Default:
    as it was."""
    cpu_time_ms: Union[int, None]
    """CPU time of all processes together, milliseconds, in addition to the deadlines.
    Null: the default of a request. Default: as it was."""
    memory_mib: Union[int, None]
    """Memory of all processes together, MiB. Beyond it, the execution ends oom. Null:
    the default of a request. Default: as it was."""
    cpus: Union[float, None]
    """Processors that may be used at once. A fraction slows the program down. Null: the
    default of a request. Default: as it was."""
    pids: Union[int, None]
    """Processes and threads at one time. Null: the default of a request. Default: as it
    was."""
    disk_mib: Union[int, None]
    """Files that the program may write, MiB. A container’s disk is part of its memory.
    Null: the default of a request. Default: as it was."""
    stdout_bytes: Union[int, None]
    """Bytes of stdout in the result: its head. The full output is fetched separately.
    Null: the default of a request. Default: as it was."""
    stderr_bytes: Union[int, None]
    """Bytes of stderr in the result: its tail. The full output is fetched separately.
    Null: the default of a request. Default: as it was."""
    on_output_limit: Union[Literal["truncate", "kill"], None]
    """What happens beyond stdout_bytes or stderr_bytes: the output is cut, or the
    program is killed. Null: the default of a request. Default: as it was."""
    artifact_bytes: Union[int, None]
    """Size of the largest artifact, bytes. A value above the default must be allowed by
    the policy of the tenant. The same holds for artifacts_total_bytes and
    artifact_count. Null: the default of a request. Default: as it was."""
    artifacts_total_bytes: Union[int, None]
    """Size of all artifacts together, bytes. Null: the default of a request. Default:
    as it was."""
    artifact_count: Union[int, None]
    """Number of artifacts. Null: the default of a request. Default: as it was."""


class RerunRequestEditNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class RerunRequestEditRetry(TypedDict):
    max_attempts: int
    """The most attempts in all, the first one included. Each is charged and audited."""
    on: list[Literal["worker_lost", "sandbox_lost", "provisioning", "error", "crashed", "soft_timeout", "hard_timeout", "oom"]]
    """Endings after which it is attempted again. worker_lost, sandbox_lost and
    provisioning are failures of the platform: name them if the program has no effects
    outside the sandbox. Name the others if the program can resume."""


class RerunRequestEditCheckpoint(TypedDict, total=False):
    globs: list[str]
    """Files that are kept, at most 256 files and 16 MiB in all. Default: checkpoint/**."""
    every_ms: int
    """Interval of saves while the program runs, milliseconds. Default: saved only at
    the end of an attempt."""


class RerunRequestEdit(TypedDict, total=False):
    """What to change. Default: nothing."""
    program: Union[RerunRequestEditProgramScript, RerunRequestEditProgramCommand, RerunRequestEditProgramTests, RerunRequestEditProgramInstall, RerunRequestEditProgramFiles]
    """Another program. Default: as it was."""
    args: list[str]
    """Other arguments of a script, or of a command with argv. Default: as it was."""
    stdin: Union[str, None]
    """Another standard input. Null: none. Default: as it was."""
    files: Union[list[RerunRequestEditFilesItem], None]
    """Files that replace all files of the first request. Null: none. Default: as it
    was."""
    env: dict[str, Union[str, None]]
    """Variables to set besides the others. A value of null removes one. Default: as it
    was."""
    artifacts: Union[list[str], None]
    """Other patterns of artifacts. Null: none. Default: as it was."""
    session: Union[RerunRequestEditSession, None]
    """Another session. Null: none. Default: as it was."""
    workspace: Union[RerunRequestEditWorkspace, None]
    """Another workspace. Null: none. Default: as it was."""
    limits: RerunRequestEditLimits
    """Limits to change. If one deadline is given, the other one follows from it.
    Default: as it was."""
    network: Union[Literal["none"], Literal["public"], RerunRequestEditNetwork]
    """What the program may reach. Default: as it was."""
    environment: Literal["default-public", "internal-only"]
    """The environment. Default: as it was."""
    backend: str
    """The backend, or auto. Default: as it was."""
    min_isolation: Union[Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"], None]
    """The weakest isolation to accept. Null: that of the policy. Default: as it was."""
    reuse: Literal["job", "session", "tenant"]
    """Who may use the same sandbox. Default: as it was."""
    preload: Union[str, None]
    """A preload set. Null: none. Default: as it was."""
    lane: Literal["interactive", "routine"]
    """The lane. Default: as it was."""
    priority: int
    """Order among the waiting executions of its agent. Default: as it was."""
    on_cap: Literal["reject", "defer"]
    """What to do if a cap is used up. Default: as it was."""
    retry: Union[RerunRequestEditRetry, None]
    """Retries. Null: none. Default: as it was."""
    checkpoint: Union[RerunRequestEditCheckpoint, None]
    """A checkpoint. Null: none. Default: as it was."""


class RerunRequest(TypedDict, total=False):
    edit: RerunRequestEdit
    """What to change. Default: nothing."""
    idempotency_key: str
    """Makes repeating the request harmless. For 24 hours, the same key with the same
    body names the same execution; with another body the answer is 409. Default: none."""


class _TenantCapsInputRequired(TypedDict):
    tenant_daily: Union[int, None]
    """Charged attempts per UTC day. 0 stops the tenant. Null (default): that of the
    fleet, 1,000."""
    agent_hourly: Union[int, None]
    """Charged attempts per agent and UTC hour. 0 stops its agents. Null (default): that
    of the fleet, 100."""
    agents: dict[str, int]
    """Hourly caps of single agents, instead of agent_hourly. Default: none."""
    concurrency: Union[int, None]
    """Executions that may run at once. Null (default): all slots of the fleet. While
    its runs take 1 s or more on average, or none has ended yet, the tenant leaves a
    quarter of the slots to others."""
    max_queued: Union[int, None]
    """Executions that may be queued at once. Null (default): that of the fleet, 10,000."""
    weight: float
    """Share of the fleet under contention, relative to other tenants. Default: 1."""
    rate_per_second: Union[float, None]
    """Sustained starts per second. Null (default): no rate limit."""
    burst: int
    """Starts that may come at once before rate_per_second holds them back. Default: 1."""


class TenantCapsInput(_TenantCapsInputRequired, total=False):
    tenant_daily_cpu_seconds: Union[int, None]
    """CPU seconds per UTC day. Null (default): no cap. Admission reserves the most that
    an attempt may use. When the attempt ends, its real use counts instead."""
    tenant_daily_cost: Union[int, None]
    """Cost per UTC day, micro-units. Null (default): no cap. Prices are in the workers’
    configuration."""


class TenantPolicyInputNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class TenantPolicyInputPackages(TypedDict):
    """Packages that install may fetch. Default: none."""
    pypi: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""
    npm: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""


class TenantPolicyInputCommands(TypedDict):
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    allow: Union[list[str], None]
    """The only programs that may be named, at most 512. Null: all but those of block."""
    block: list[str]
    """Programs that may not be named, at most 512."""


class TenantPolicyInputTemplates(TypedDict):
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    required: bool
    """Refuse executions that no template applies to."""
    agents: dict[str, str]
    """The template of each agent. A request of that agent which names another template
    is refused."""


class _TenantPolicyInputRequired(TypedDict):
    tenant_id: str
    """The tenant."""
    sandbox_enabled: bool
    """False: every execution is refused, uncharged. Default: true if compliance_tier is
    standard, else false."""
    compliance_tier: Literal["standard", "regulated", "hipaa"]
    """regulated and hipaa: code runs only under a template with strict settings.
    Default: standard."""
    min_isolation: Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"]
    """The weakest isolation that programs of the tenant may have. Neither a request nor
    fallback to another backend can lower it. Default: jail."""
    environments: list[Literal["default-public", "internal-only"]]
    """Environments that are provisioned for the tenant. Default: both."""
    retention_days: int
    """Days after which audit rows, with results and outputs, are deleted. Default: 30."""
    redact: list[str]
    """Literal values, 12 characters or more each, that are replaced in all output of
    the tenant’s programs. At most 64. Default: none."""


class TenantPolicyInput(_TenantPolicyInputRequired, total=False):
    network: Union[Literal["none"], Literal["public"], TenantPolicyInputNetwork]
    """What a program may reach. A request can only restrict it. If this is public, a
    request may list hosts with any port. Private addresses are always refused. Default:
    public."""
    packages: TenantPolicyInputPackages
    """Packages that install may fetch. Default: none."""
    commands: TenantPolicyInputCommands
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    templates: TenantPolicyInputTemplates
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    encrypt_outputs: bool
    """Store full outputs and artifacts encrypted. Default: false."""
    output_retention_days: Union[int, None]
    """Days after which full outputs and artifacts are deleted. Null (default): together
    with their rows."""
    max_artifact_bytes: int
    """The highest limits.artifact_bytes that a request may ask for, bytes. Default:
    8,388,608."""
    max_artifacts_total_bytes: int
    """The highest limits.artifacts_total_bytes that a request may ask for, bytes.
    Default: 16,777,216."""
    max_artifact_count: int
    """The highest limits.artifact_count that a request may ask for. Default: 256."""
    run_sessions: bool
    """Executions with a run_id share the session of their run, unless they set session
    or reuse. Default: false."""
    keep_program: Literal["never", "errors", "always"]
    """Which requests are kept when they end, to be run again: none (never, the
    default), those that did not end ok (errors), or all (always). They are deleted
    together with full outputs."""
    allow_emulation: bool
    """Programs may run in a machine that is only emulated (isolation microvm-emulated),
    which is no boundary of security. Default: false."""


class Accepted(TypedDict):
    execution_id: str
    """The execution."""
    status: Literal["delayed", "queued", "running", "ended"]
    """delayed: it cannot start yet. queued: it waits for a worker. running: a worker
    has it. ended: it has a result."""
    position: Union[int, None]
    """Executions of the fleet that should start before this one (0 when it is next).
    Null unless queued."""
    eta_ms: Union[int, None]
    """Time until it should start, milliseconds. Null if it is not queued, or if the
    time is unknown."""
    deduplicated: bool
    """True when the idempotency key belongs to an execution that already existed."""


class Artifact(TypedDict):
    path: str
    """Relative to the work directory."""
    size: int
    """Bytes."""
    sha256: str
    """SHA-256 of the content, in lowercase hex."""


class AuditRow(TypedDict):
    execution_id: str
    """The execution."""
    attempt: int
    """Number of the attempt, from 1."""
    tenant_id: str
    """The tenant that it was charged to."""
    agent_id: str
    """The agent that asked."""
    user_id: Union[str, None]
    """The user on whose behalf the agent worked. Null if the request named none."""
    run_id: Union[str, None]
    """The turn of the agent. Null if the request named none."""
    template_id: Union[str, None]
    """The template that applied. Null if none did."""
    tool_call_id: Union[str, None]
    """The tool call that it answered. Null if the request named none."""
    session_id: Union[str, None]
    """The session’s sandbox. Null outside of sessions."""
    environment_id: str
    """The environment that it ran in."""
    invocation_source: Literal["queue", "chat", "scheduled", "composition"]
    """What started the execution."""
    backend: Union[str, None]
    """The backend that ran it. Null when no sandbox was opened."""
    isolation: Union[Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"], None]
    """How strongly the sandbox was isolated. Null when no sandbox was opened."""
    interpreter_id: Union[str, None]
    """The tenant’s own code interpreter at the vendor, in which it ran. Null without
    one."""
    vendor_ref: Union[str, None]
    """The sandbox’s name in the vendor’s logs. Null when no sandbox of a vendor was
    opened."""
    passed_over: Union[str, None]
    """Preferred backends that did not fit or could not open a sandbox, each with its
    reason. Null if there are none."""
    started_at: str
    """When a worker took it."""
    finished_at: str
    """When the attempt ended."""
    duration_ms: float
    """From started_at to finished_at, milliseconds."""
    queue_ms: float
    """From enqueue to started_at, milliseconds."""
    session_start_ms: Union[float, None]
    """Time to open the sandbox, milliseconds. Null when none was opened."""
    service_execution_time: Union[float, None]
    """The vendor’s own figure for the duration, in its unit. Null if it gives none."""
    exit_status: str
    """Coarse class of the ending."""
    ending: str
    """How it ended, exactly."""
    exit_code: Union[int, None]
    """Exit status of the program. Null if a signal killed it or nothing ran."""
    error_class: Union[str, None]
    """Error class that the agent saw. Null if the ending is ok."""
    failure_reason: Union[str, None]
    """What went wrong, redacted. Null if the ending is ok."""
    quota_dimension: Union[str, None]
    """The cap that refused it. Null if none did."""
    quota_charged: bool
    """Whether the attempt counts against the caps. The counter of a window equals the
    number of attempts charged in it."""
    charged_at: Union[str, None]
    """When admission charged it. Null when not charged."""
    stdout_bytes: int
    """Bytes that the program wrote to stdout."""
    stderr_bytes: int
    """Bytes that the program wrote to stderr."""
    stdout_truncated: bool
    """Whether the result has only a part of stdout."""
    stderr_truncated: bool
    """Whether the result has only a part of stderr."""
    stdout_ref: Union[str, None]
    """Name of the stored full stdout. Null if the result has all of it, or if storing
    failed."""
    stderr_ref: Union[str, None]
    """Name of the stored full stderr. Null if the result has all of it, or if storing
    failed."""
    redaction_count: int
    """Number of secrets that were replaced in the output."""
    peak_memory_mb: Union[float, None]
    """Highest memory use, MiB. Null if not measured."""
    cpu_ms: Union[float, None]
    """CPU time of all processes, milliseconds. Null if not measured."""
    charged_cpu_ms: Union[int, None]
    """CPU time charged, milliseconds. Estimated if cpu_ms is null. Null when not
    charged."""
    charged_gb_seconds: Union[float, None]
    """Memory limit × run time, in units of 1,024 MiB for a second. Null when not
    charged."""
    cost: Union[int, None]
    """Cost in micro-units, by the prices at the end of the attempt. Null when not
    charged."""
    outbound_hosts: list[str]
    """host:port of every connection, in order of first use: at most 256, or
    egress.max_names if higher."""
    program_kind: Union[str, None]
    """What it ran: script/LANGUAGE, command, tests, install or files. Null for rows of
    an older release."""
    executed_code_hash: str
    """SHA-256 of the program as submitted, in lowercase hex."""
    trace_id: Union[str, None]
    """The trace, 32 hex digits. Null if there is none."""
    rerun_of: Union[str, None]
    """The execution that it runs again. Null if it is no rerun."""
    retention_days: int
    """Days after which the row is deleted."""


class CapsUseTenantDaily(TypedDict):
    """Charged attempts of the tenant in the UTC day."""
    used: int
    """Used in the current window."""
    limit: int
    """The cap. 0 stops everything."""
    resets_at: str
    """When the window ends and the count starts again at 0."""


class CapsUseAgentHourly(TypedDict):
    """Charged attempts of the agent in the UTC hour."""
    used: int
    """Used in the current window."""
    limit: int
    """The cap. 0 stops everything."""
    resets_at: str
    """When the window ends and the count starts again at 0."""


class CapsUseTenantDailyCpu(TypedDict):
    """CPU time of the tenant in the UTC day, counted at the end of each attempt. Absent
    without this cap."""
    used: float
    """CPU seconds used in the current window, with three decimals."""
    limit: float
    """The cap, CPU seconds."""
    resets_at: str
    """When the window ends and the count starts again at 0."""


class CapsUseTenantDailyCost(TypedDict):
    """Cost of the tenant in the UTC day, micro-units, counted at the end of each
    attempt. Absent without this cap."""
    used: int
    """Used in the current window."""
    limit: int
    """The cap. 0 stops everything."""
    resets_at: str
    """When the window ends and the count starts again at 0."""


class _CapsUseRequired(TypedDict):
    tenant_daily: CapsUseTenantDaily
    """Charged attempts of the tenant in the UTC day."""
    agent_hourly: CapsUseAgentHourly
    """Charged attempts of the agent in the UTC hour."""


class CapsUse(_CapsUseRequired, total=False):
    tenant_daily_cpu: CapsUseTenantDailyCpu
    """CPU time of the tenant in the UTC day, counted at the end of each attempt. Absent
    without this cap."""
    tenant_daily_cost: CapsUseTenantDailyCost
    """Cost of the tenant in the UTC day, micro-units, counted at the end of each
    attempt. Absent without this cap."""


class _ErrorErrorRequired(TypedDict):
    code: str
    """Stable word for the failure (docs/errors.md). Programs should compare this one."""
    message: str
    """What happened."""
    hint: str
    """What to do about it."""
    retry: Literal["never", "later", "elsewhere"]
    """Whether to send the same request again: never, later, or to another backend or
    process (elsewhere)."""


class ErrorError(_ErrorErrorRequired, total=False):
    """The failure."""
    details: dict[str, Any]
    """Facts for programs. Each code has its own. Absent if there are none."""
    trace_id: str
    """The trace of the request, 32 hex digits, to tell an operator."""


class Error(TypedDict):
    error: ErrorError
    """The failure."""


class _ComparedSideUsageRequired(TypedDict):
    cpu_ms: Union[float, None]
    """User and system CPU time of the whole process tree, milliseconds. Null if not
    measured."""
    peak_memory_bytes: Union[int, None]
    """Highest memory use of the sandbox, bytes. Null if not measured."""
    read_bytes: Union[int, None]
    """Bytes that all processes read, from files and pipes alike. Null if not measured."""
    write_bytes: Union[int, None]
    """Bytes that all processes wrote, to files and pipes alike. Null if not measured."""
    pids_peak: Union[int, None]
    """Highest number of processes and threads at one time. Null if not measured."""
    disk_bytes: Union[int, None]
    """Bytes of the sandbox’s own disk in use at the end. Null if not measured."""
    wall_ms: float
    """From the start of the program to its end, milliseconds."""


class ComparedSideUsage(_ComparedSideUsageRequired, total=False):
    charged_cpu_ms: int
    """CPU time that was charged, milliseconds: as measured, or run time × cpus if
    cpu_ms is null. Absent if not charged."""
    cost: int
    """Cost, micro-units: millionths of the operator’s unit. Absent if not charged."""


class _ComparedSideRequired(TypedDict):
    execution_id: str
    """The execution."""
    attempt: int
    """Number of the attempt, from 1."""
    rerun_of: Union[str, None]
    """The execution that it runs again. Null if it is no rerun."""
    started_at: str
    """When a worker took it."""
    ending: Literal["ok", "error", "crashed", "soft_timeout", "hard_timeout", "oom", "pids_limit", "disk_limit", "output_limit", "cancelled", "policy_denied", "cap_exceeded", "provisioning", "sandbox_lost", "worker_lost"]
    """How the attempt ended, exactly."""
    exit_code: Union[int, None]
    """Exit status of the program. Null if a signal killed it or nothing ran."""
    signal: Union[str, None]
    """Signal that killed the program. Null if none did."""
    backend: Union[str, None]
    """The backend that ran it. Null when no sandbox was opened."""
    isolation: Union[Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"], None]
    """How strongly the sandbox was isolated. Null when no sandbox was opened."""
    duration_ms: float
    """From when a worker took the execution until the attempt ended, milliseconds."""
    queue_ms: float
    """From the enqueue until a worker took the execution, milliseconds."""
    usage: Union[ComparedSideUsage, None]
    """What the program used. Null if nothing ran."""
    stdout_bytes: int
    """Bytes that the program wrote to stdout."""
    stderr_bytes: int
    """Bytes that the program wrote to stderr."""
    executed_code_hash: str
    """SHA-256 of the program as submitted, in lowercase hex."""


class ComparedSide(_ComparedSideRequired, total=False):
    error_message: str
    """What went wrong, for humans and agents, redacted. Absent if the ending is ok."""
    value: Any
    """Value of the script as JSON: its last expression (python), module.exports or the
    default export (others). Absent if it has none."""


class ComparisonArtifactsItem(TypedDict):
    path: str
    """The artifact."""
    change: Literal["added", "removed", "changed"]
    """added: only the second has it. removed: only the first. changed: other content."""


class Comparison(TypedDict):
    first: ComparedSide
    """The execution that `with` names, or else the one that the second runs again."""
    second: ComparedSide
    """The execution of the path."""
    differences: list[Literal["program", "ending", "exit_code", "signal", "stdout", "stderr", "value", "artifacts", "backend"]]
    """What differs, besides figures such as durations and usage. Empty if the results
    are alike."""
    stdout: TextDiff
    """The stdout in both results."""
    stderr: TextDiff
    """The stderr in both results."""
    artifacts: list[ComparisonArtifactsItem]
    """Artifacts that differ, at most 100."""


class ExecutionEventQueued(TypedDict):
    type: Literal["queued"]
    """It waits for a worker."""
    at_ms: int
    """Milliseconds since the epoch."""


class ExecutionEventStarted(TypedDict):
    type: Literal["started"]
    """An attempt has a sandbox and begins."""
    at_ms: int
    """Milliseconds since the epoch."""
    attempt: int
    """Number of the attempt, from 1."""
    backend: str
    """The backend that runs it."""
    isolation: str
    """How strongly the sandbox is isolated."""


class ExecutionEventOutput(TypedDict):
    type: Literal["output"]
    """The program wrote something."""
    at_ms: int
    """Milliseconds since the epoch."""
    stream: Literal["stdout", "stderr"]
    """Where it wrote."""
    text: str
    """What it wrote, redacted."""


class ExecutionEventProgress(TypedDict):
    type: Literal["progress"]
    """The program reported its progress."""
    at_ms: int
    """Milliseconds since the epoch."""
    fraction: float
    """Share that is done, 0 to 1."""
    message: str
    """What the program says, at most 200 characters."""


class ExecutionEventNotice(TypedDict):
    type: Literal["notice"]
    """Something that the caller should know."""
    at_ms: int
    """Milliseconds since the epoch."""
    message: str
    """The notice."""


class ExecutionEventEnded(TypedDict):
    type: Literal["ended"]
    """An attempt ended. The last event, unless another attempt follows."""
    at_ms: int
    """Milliseconds since the epoch."""
    attempt: int
    """Number of the attempt, from 1."""
    ending: Literal["ok", "error", "crashed", "soft_timeout", "hard_timeout", "oom", "pids_limit", "disk_limit", "output_limit", "cancelled", "policy_denied", "cap_exceeded", "provisioning", "sandbox_lost", "worker_lost"]
    """How it ended, exactly."""
    exit_status: Literal["ok", "error", "timeout", "oom", "cap_exceeded", "provisioning", "cancelled"]
    """Coarse class of the ending."""
    exit_code: Union[int, None]
    """Exit status of the program. Null if a signal killed it or nothing ran."""


ExecutionEvent = Union[ExecutionEventQueued, ExecutionEventStarted, ExecutionEventOutput, ExecutionEventProgress, ExecutionEventNotice, ExecutionEventEnded]


class _ExecutionResultUsageRequired(TypedDict):
    cpu_ms: Union[float, None]
    """User and system CPU time of the whole process tree, milliseconds. Null if not
    measured."""
    peak_memory_bytes: Union[int, None]
    """Highest memory use of the sandbox, bytes. Null if not measured."""
    read_bytes: Union[int, None]
    """Bytes that all processes read, from files and pipes alike. Null if not measured."""
    write_bytes: Union[int, None]
    """Bytes that all processes wrote, to files and pipes alike. Null if not measured."""
    pids_peak: Union[int, None]
    """Highest number of processes and threads at one time. Null if not measured."""
    disk_bytes: Union[int, None]
    """Bytes of the sandbox’s own disk in use at the end. Null if not measured."""
    wall_ms: float
    """From the start of the program to its end, milliseconds."""


class ExecutionResultUsage(_ExecutionResultUsageRequired, total=False):
    charged_cpu_ms: int
    """CPU time that was charged, milliseconds: as measured, or run time × cpus if
    cpu_ms is null. Absent if not charged."""
    cost: int
    """Cost, micro-units: millionths of the operator’s unit. Absent if not charged."""


class _ExecutionResultLimitsRequired(TypedDict):
    soft_timeout_ms: int
    """Soft deadline, milliseconds."""
    hard_timeout_ms: int
    """Hard deadline, milliseconds."""
    memory_mib: int
    """Memory of all processes together, MiB."""
    cpus: float
    """Processors that could be used at once."""
    pids: int
    """Processes and threads at one time."""
    disk_mib: int
    """Files that the program could write, MiB."""
    stdout_bytes: int
    """Most bytes of stdout in the result."""
    stderr_bytes: int
    """Most bytes of stderr in the result."""


class ExecutionResultLimits(_ExecutionResultLimitsRequired, total=False):
    """The limits that held, to compare usage with. Absent if no program ran, or if an
    older release wrote the result."""
    cpu_time_ms: int
    """CPU time of all processes together, milliseconds. Absent if not limited."""


class ExecutionResultArtifactsOmittedItem(TypedDict):
    path: str
    """Relative to the work directory."""
    size: int
    """Bytes, as the sandbox reported."""
    reason: Literal["too_large", "total_too_large", "too_many", "unsafe_name", "unreadable", "not_stored", "out_of_time"]
    """too_large, total_too_large, too_many: it exceeds limits.artifact_bytes,
    artifacts_total_bytes or artifact_count. unsafe_name: its path is too long or not
    UTF-8. unreadable: the sandbox did not deliver it. not_stored: writing it to the
    store failed. out_of_time: collecting ended before it was reached."""


class ExecutionResultTestsFailuresItem(TypedDict):
    name: str
    """Name of the test."""
    file: Union[str, None]
    """File of the failure. Null if the report names none."""
    line: Union[int, None]
    """Line in that file, from 1. Null if the report names none."""
    message: str
    """Why it failed."""


class ExecutionResultTests(TypedDict):
    """Report of a test run. Otherwise absent."""
    framework: Literal["pytest", "unittest", "jest", "vitest", "mocha", "node:test", "go", "cargo", "npm"]
    """The framework that ran."""
    command: str
    """The command that ran, as a shell line."""
    total: int
    """Tests in all."""
    passed: int
    """Tests that passed."""
    failed: int
    """Tests that failed."""
    errored: int
    """Tests that could not be run or collected."""
    skipped: int
    """Tests that were skipped."""
    duration_ms: Union[float, None]
    """As the framework reported, milliseconds. Null if it did not."""
    failures: list[ExecutionResultTestsFailuresItem]
    """Every test that failed or errored, at most 500."""
    failures_omitted: int
    """Number of failures that the list leaves out."""
    complete: bool
    """False when the run was stopped early, or when the framework’s report was missing
    or broken. Without a report the counts come from the printed summary."""


class ExecutionResultInstallPackagesItem(TypedDict):
    name: str
    """Name of the package."""
    version: str
    """The version that was fetched."""


class ExecutionResultInstallRefusedItem(TypedDict):
    name: str
    """Name of the package."""
    reason: str
    """Why it was refused."""


class ExecutionResultInstall(TypedDict):
    """Report of an install. Otherwise absent."""
    manager: Literal["pip", "npm", "yarn", "pnpm"]
    """The package manager that ran."""
    command: str
    """The command that ran."""
    packages: list[ExecutionResultInstallPackagesItem]
    """Every package fetched through the package proxy, at most 2,000."""
    refused: list[ExecutionResultInstallRefusedItem]
    """Packages that the policy of the tenant refused, at most 100."""


class ExecutionResultSession(TypedDict):
    """The session. Absent outside of sessions, or when no sandbox was opened."""
    id: str
    """Identifies the session’s sandbox: a new ID means a new sandbox."""
    fresh: bool
    """True when no state of an earlier execution was there."""
    interpreter: Literal["kept", "restarted", "none"]
    """kept: the program ran in the interpreter of earlier executions, with their
    variables. restarted: that interpreter had exited or was killed for memory, so the
    program ran in a new one. none: there was no earlier interpreter. This holds for the
    first script of a language, for programs that are not scripts, for the scopes none
    and files, and if the program was killed before the interpreter was known."""


class ExecutionResultWorkspaceAppliedItem(TypedDict):
    path: str
    """Relative to the root of the workspace."""
    change: Literal["written", "deleted"]
    """What was done to it."""


class ExecutionResultWorkspaceConflictedItem(TypedDict):
    path: str
    """Relative to the root of the workspace."""
    kept_as: Union[str, None]
    """The path of the sandbox’s version. Null if it was not kept."""


class ExecutionResultWorkspaceRefusedItem(TypedDict):
    path: str
    """Relative to the root of the workspace."""
    reason: str
    """Why it was not merged."""


class _ExecutionResultWorkspaceRequired(TypedDict):
    name: str
    """The workspace."""
    version: int
    """Its version after the merge."""
    status: Literal["merged", "unchanged", "failed"]
    """failed: nothing was merged, and reason says why."""
    applied: list[ExecutionResultWorkspaceAppliedItem]
    """Changes that were merged, at most 1,000."""
    conflicted: list[ExecutionResultWorkspaceConflictedItem]
    """Files that both sides changed, at most 1,000."""
    refused: list[ExecutionResultWorkspaceRefusedItem]
    """Changes that were not merged, at most 1,000."""
    omitted: int
    """Number of paths that the lists above leave out."""


class ExecutionResultWorkspace(_ExecutionResultWorkspaceRequired, total=False):
    """What happened to changed workspace files. Absent without a workspace, or when
    nothing ran."""
    reason: str
    """Why it failed. Otherwise absent."""


class _ExecutionResultRequired(TypedDict):
    ok: bool
    """True if the ending is ok: the program exited with status 0."""
    execution_id: str
    """The execution."""
    attempt: int
    """Number of the attempt, from 1."""
    exit_status: Literal["ok", "error", "timeout", "oom", "cap_exceeded", "provisioning", "cancelled"]
    """Coarse class of the ending."""
    ending: Literal["ok", "error", "crashed", "soft_timeout", "hard_timeout", "oom", "pids_limit", "disk_limit", "output_limit", "cancelled", "policy_denied", "cap_exceeded", "provisioning", "sandbox_lost", "worker_lost"]
    """How the attempt ended, exactly."""
    exit_code: Union[int, None]
    """Exit status of the program. Null if a signal killed it or nothing ran."""
    signal: Union[str, None]
    """Signal that killed the program. Null if none did."""
    stdout: str
    """Head of the standard output, redacted, at most limits.stdout_bytes."""
    stderr: str
    """Tail of the standard error, redacted, at most limits.stderr_bytes."""
    stdout_bytes: int
    """Bytes that the program wrote to stdout."""
    stderr_bytes: int
    """Bytes that the program wrote to stderr."""
    stdout_truncated: bool
    """Whether stdout is shorter than what was written."""
    stderr_truncated: bool
    """Whether stderr is shorter than what was written."""
    duration_ms: float
    """From when a worker took the execution until the attempt ended, milliseconds."""
    queue_ms: float
    """From the enqueue until a worker took the execution, milliseconds."""
    usage: Union[ExecutionResultUsage, None]
    """What the program used. Null if nothing ran."""
    artifacts: list[Artifact]
    """Files that were returned."""
    backend: Union[str, None]
    """The backend that ran it. Null when no sandbox was opened."""
    isolation: Union[Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"], None]
    """How strongly the sandbox was isolated. Null when no sandbox was opened."""
    trace_id: Union[str, None]
    """The trace, 32 hex digits. Null if there is none."""
    caps: Union[CapsUse, None]
    """Use of the caps, this attempt included. Null when it did not reach admission."""


class ExecutionResult(_ExecutionResultRequired, total=False):
    value: Any
    """Value of the script as JSON: its last expression (python), module.exports or the
    default export (others). Absent if it has none."""
    limits: ExecutionResultLimits
    """The limits that held, to compare usage with. Absent if no program ran, or if an
    older release wrote the result."""
    artifacts_omitted: list[ExecutionResultArtifactsOmittedItem]
    """Matching files that are not artifacts, at most 100. Absent when there are none."""
    artifacts_incomplete: bool
    """True when collecting ended early, so more files may match than the two lists
    name. Otherwise absent."""
    collected_from: str
    """The folder that collect stored. Paths of artifacts are relative to it. Absent for
    other programs."""
    env_dropped: list[str]
    """Variables of env that were not set, because they change how programs start.
    Absent when empty."""
    tests: ExecutionResultTests
    """Report of a test run. Otherwise absent."""
    install: ExecutionResultInstall
    """Report of an install. Otherwise absent."""
    session: ExecutionResultSession
    """The session. Absent outside of sessions, or when no sandbox was opened."""
    vendor_ref: str
    """The sandbox’s name in the vendor’s logs. Absent when no sandbox of a vendor was
    opened."""
    workspace: ExecutionResultWorkspace
    """What happened to changed workspace files. Absent without a workspace, or when
    nothing ran."""
    error: Literal["SandboxError", "SandboxTimeout", "SandboxOOM", "SandboxCapExceeded", "SandboxProvisioning", "SandboxPolicyDenied", "SandboxCancelled"]
    """Error class that an agent sees. Absent if the ending is ok."""
    error_message: str
    """What went wrong, for humans and agents, redacted. Absent if the ending is ok."""
    reason: str
    """Stable word for the cause. Absent if there is none."""
    dimension: Literal["tenant_daily", "agent_hourly", "tenant_daily_cpu", "tenant_daily_cost", "tenant_rate", "unknown"]
    """The cap that refused the attempt. Otherwise absent."""
    resets_at: str
    """When that cap resets. Otherwise absent."""
    kill_switch: bool
    """True if that cap is 0, so that it never lets anything through. Otherwise absent."""


class ExecutionStateProgress(TypedDict):
    """The program’s last progress report. Absent without one, and from an hour after
    the end."""
    fraction: float
    """Share that is done, 0 to 1."""
    message: str
    """What the program says, at most 200 characters."""
    at: str
    """When the program reported it."""


class ExecutionStateCallback(TypedDict):
    """Delivery to callback_url. Absent without one, and from seven days after the end."""
    state: Literal["waiting", "sending", "delivered", "failed"]
    """waiting: the execution has not ended. sending: it is retried until accepted, for
    at most a day."""
    attempts: int
    """Requests that were sent."""
    last_status: Union[int, None]
    """HTTP status of the last answer. Null if there was none."""
    last_error: Union[str, None]
    """Why the last request failed. Null if it did not."""


class _ExecutionStateRequired(TypedDict):
    execution_id: str
    """The execution."""
    tenant_id: str
    """Its tenant."""
    agent_id: str
    """Its agent."""
    status: Literal["delayed", "queued", "running", "ended"]
    """delayed: it cannot start yet. queued: it waits for a worker. running: a worker
    has it. ended: it has a result."""
    attempt: int
    """Number of the last attempt. 0 before the first."""
    enqueued_at: str
    """When it was accepted."""
    started_at: Union[str, None]
    """When a worker took it. Null before that."""
    position: Union[int, None]
    """Executions of the fleet that should start before this one (0 when it is next).
    Null unless queued."""
    eta_ms: Union[int, None]
    """Time until it should start, milliseconds. Null if it is not queued, or if the
    time is unknown."""
    result: Union[ExecutionResult, None]
    """The result. Null until the execution has ended."""


class ExecutionState(_ExecutionStateRequired, total=False):
    rerun_of: str
    """The execution that it runs again. Absent if it is no rerun."""
    program_kind: str
    """What it runs: script/LANGUAGE, command, tests, install or files. Absent if an
    older release accepted it."""
    session_key: str
    """The session that it shares. Absent without one, and after the end: see
    result.session."""
    backend: str
    """The backend that runs it. Before it runs, the one that the request names: absent
    with auto. Absent after the end: see result.backend."""
    progress: ExecutionStateProgress
    """The program’s last progress report. Absent without one, and from an hour after
    the end."""
    callback: ExecutionStateCallback
    """Delivery to callback_url. Absent without one, and from seven days after the end."""


class ExecutionTraceSpansItemEventsItem(TypedDict):
    name: str
    """What happened."""
    at_ms: float
    """Milliseconds since the epoch, with fractions."""
    attributes: dict[str, Any]
    """Facts by name (docs/reference/telemetry.md)."""


class ExecutionTraceSpansItem(TypedDict):
    trace_id: str
    """The trace, 32 hex digits."""
    span_id: str
    """The span, 16 hex digits."""
    parent_span_id: Union[str, None]
    """Its parent. Null for the root span. May name a span that is not in the answer."""
    name: str
    """What was done."""
    kind: Literal["internal", "server", "client", "producer", "consumer"]
    """Kind of the span, as OpenTelemetry defines it."""
    service: str
    """The process: cofferdam-api or cofferdam-worker."""
    start_ms: float
    """Milliseconds since the epoch, with fractions."""
    duration_ms: float
    """Milliseconds, with fractions."""
    status: Literal["unset", "ok", "error"]
    """Whether it failed."""
    status_message: Union[str, None]
    """Why it failed. Null for keys of tenants, because it may contain details for
    operators."""
    attributes: dict[str, Any]
    """Facts by name (docs/reference/telemetry.md)."""
    events: list[ExecutionTraceSpansItemEventsItem]
    """What happened during the span."""


class ExecutionTrace(TypedDict):
    execution_id: str
    """The execution."""
    trace_id: Union[str, None]
    """The trace. Null when none was recorded yet."""
    spans: list[ExecutionTraceSpansItem]
    """The recorded spans, parents before children. Empty when none were recorded yet."""


class _ExecutionWhyFactsItemRequired(TypedDict):
    question: Literal["waits", "refused", "backend", "ending"]
    """waits: why it has not begun. refused: why nothing ran. backend: why it ran there.
    ending: how it ended."""
    code: str
    """Stable word for the fact. docs/operations/why.md lists them."""
    text: str
    """The fact in a sentence."""
    figures: dict[str, Union[str, float, bool]]
    """The figures of the sentence, by name. Empty if there are none."""


class ExecutionWhyFactsItem(_ExecutionWhyFactsItemRequired, total=False):
    since: str
    """Since when it could have started. Absent if it does not wait in the queue."""
    until: str
    """When the reason goes away by itself, or for no_worker, when the execution is
    refused. Absent if that is unknown."""
    action: str
    """What can be done about it. Absent if there is nothing to do."""


class ExecutionWhy(TypedDict):
    execution_id: str
    """The execution."""
    status: Literal["delayed", "queued", "running", "ended"]
    """Its status, as in its state."""
    facts: list[ExecutionWhyFactsItem]
    """The most decisive one first. Empty while the program runs."""


class QueueTenantsTenantsItem(TypedDict):
    tenant_id: str
    """The tenant."""
    waiting: int
    """Executions that are due and wait for a slot."""
    delayed: int
    """Executions that cannot start yet. They are not in waiting."""
    running: int
    """Executions that hold a slot: released to the workers, or running there."""
    concurrency: Union[int, None]
    """Executions that may hold a slot at once. Null without a limit of its own."""
    max_queued: int
    """Executions that may wait at once, delayed ones included."""
    weight: float
    """Share of the fleet under contention, relative to other tenants."""
    share_1m: Union[float, None]
    """Its part of the time that the workers spent on executions in the last minute, 0
    to 1. Null while Postgres does not answer."""
    due_share: float
    """Its weight, divided by the weights of all tenants that want work, 0 to 1. 0 while
    it is parked and runs nothing."""
    virtual_lag: Union[float, None]
    """Slot seconds, divided by its weight, that it has used beyond its due share.
    Tenants with less go first. Null if unknown."""
    place: Union[int, None]
    """Place in the order of who is next; 1 is next. Each lane and each kind of worker
    has its own order, and this is its best place. Null while it cannot be served. Then
    nothing of it waits in the fair queue, it has reached its concurrency, it is parked,
    it leaves slots to others, or no worker can run its executions."""
    oldest_age_ms: Union[float, None]
    """How long its oldest waiting execution has been due, milliseconds. Null if none is
    known."""
    parked_until: Union[str, None]
    """All its executions wait until then: a cap is used up, or policy or caps cannot be
    read. Null if not parked."""
    kill_switch: Union[bool, None]
    """Whether one of its caps is 0, which stops it. Null while Postgres does not
    answer."""


class QueueTenants(TypedDict):
    at: str
    """When the scheduler was read. An answer may be some seconds old."""
    tenants: list[QueueTenantsTenantsItem]
    """Tenants with executions waiting or running."""
    total: int
    """Number of tenants with executions waiting or running. At most limit of them are
    listed."""
    complete: bool
    """False when there are more than 10,000 such tenants, or more than 20,000 running
    executions. No figure includes the others, so the shown places and due shares are
    better than the true ones."""


class RerunNotesItem(TypedDict):
    code: Literal["session_now", "workspace_now", "template_changed", "policy_changed", "not_copied"]
    """Stable word for the difference."""
    text: str
    """The difference in a sentence."""


class Rerun(TypedDict):
    execution: Accepted
    """The new execution, as POST /v1/executions answers with 202."""
    rerun_of: str
    """The execution that it runs again."""
    notes: list[RerunNotesItem]
    """What differs from the first time although nobody edited it. Empty if nothing."""
    result: Union[ExecutionResult, None]
    """The result. Null if it did not end in the wait."""


class ReadableTenant(TypedDict):
    policy: ReadableTenantPolicy
    """What it may do."""
    caps: TenantCaps
    """Its caps."""


class ReadableTenantPolicyNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class ReadableTenantPolicyPackages(TypedDict):
    """Packages that install may fetch. Default: none."""
    pypi: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""
    npm: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""


class ReadableTenantPolicyCommands(TypedDict):
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    allow: Union[list[str], None]
    """The only programs that may be named, at most 512. Null: all but those of block."""
    block: list[str]
    """Programs that may not be named, at most 512."""


class ReadableTenantPolicyTemplates(TypedDict):
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    required: bool
    """Refuse executions that no template applies to."""
    agents: dict[str, str]
    """The template of each agent. A request of that agent which names another template
    is refused."""


class _ReadableTenantPolicyRequired(TypedDict):
    tenant_id: str
    """The tenant."""
    sandbox_enabled: bool
    """False: every execution is refused, uncharged. Default: true if compliance_tier is
    standard, else false."""
    compliance_tier: Literal["standard", "regulated", "hipaa"]
    """regulated and hipaa: code runs only under a template with strict settings.
    Default: standard."""
    min_isolation: Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"]
    """The weakest isolation that programs of the tenant may have. Neither a request nor
    fallback to another backend can lower it. Default: jail."""
    environments: list[Literal["default-public", "internal-only"]]
    """Environments that are provisioned for the tenant. Default: both."""
    retention_days: int
    """Days after which audit rows, with results and outputs, are deleted. Default: 30."""
    network: Union[Literal["none"], Literal["public"], ReadableTenantPolicyNetwork]
    """What a program may reach. A request can only restrict it. If this is public, a
    request may list hosts with any port. Private addresses are always refused."""
    packages: ReadableTenantPolicyPackages
    """Packages that install may fetch. Default: none."""
    commands: ReadableTenantPolicyCommands
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    templates: ReadableTenantPolicyTemplates
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    encrypt_outputs: bool
    """Store full outputs and artifacts encrypted."""
    output_retention_days: Union[int, None]
    """Days after which full outputs and artifacts are deleted. Null (default): together
    with their rows."""
    max_artifact_bytes: int
    """The highest limits.artifact_bytes that a request may ask for, bytes."""
    max_artifacts_total_bytes: int
    """The highest limits.artifacts_total_bytes that a request may ask for, bytes."""
    max_artifact_count: int
    """The highest limits.artifact_count that a request may ask for."""
    run_sessions: bool
    """Executions with a run_id share the session of their run, unless they set session
    or reuse."""
    keep_program: Literal["never", "errors", "always"]
    """Which requests are kept when they end, to be run again: none (never, the
    default), those that did not end ok (errors), or all (always). They are deleted
    together with full outputs."""
    allow_emulation: bool
    """Programs may run in a machine that is only emulated (isolation microvm-emulated),
    which is no boundary of security. Default: false."""


class ReadableTenantPolicy(_ReadableTenantPolicyRequired, total=False):
    redact: list[str]
    """Values that are redacted. They are secrets: only admin keys see them."""


class RoutineSchedule(TypedDict):
    cron: str
    """Five fields of cron, six with seconds in front, or a word such as @daily."""
    time_zone: str
    """IANA time zone of cron."""


class RoutineSchedule2(TypedDict):
    every_ms: int
    """Fixed interval, milliseconds, counted from the creation of the routine. At most
    31 days."""


class Routine(TypedDict):
    routine_id: str
    """The routine."""
    tenant_id: str
    """Its tenant."""
    agent_id: str
    """The agent whose caps its runs count against."""
    template_id: Union[str, None]
    """The template that its request names. Null if it names none."""
    name: str
    """A name for humans."""
    request: dict[str, Any]
    """The request as it was written."""
    schedule: Union[Union[RoutineSchedule, RoutineSchedule2], None]
    """When it runs. Null: on demand only."""
    enabled: bool
    """False: it runs on demand only."""
    concurrency: Literal["allow", "forbid", "replace"]
    """If an earlier run has not ended: run both (allow), skip the new one (forbid), or
    cancel the earlier one (replace)."""
    callback_url: Union[str, None]
    """Address that the result of each run is posted to. Null: none, unless the request
    names one."""
    created_at: str
    """When it was created."""
    updated_at: str
    """When it was last changed."""
    last_run: Union[RoutineRun, None]
    """Its last run. Null before the first."""
    next_run_at: Union[str, None]
    """When it is due next. Null without a schedule, or while disabled."""


class RoutineRun(TypedDict):
    scheduled_at: Union[str, None]
    """When it was due. Null when it was run on demand."""
    fired_at: str
    """When it was enqueued, skipped or refused."""
    outcome: Literal["enqueued", "skipped", "refused"]
    """What became of it."""
    reason: Union[str, None]
    """Why it was skipped or refused, or which runs it replaced. Otherwise null."""
    execution_id: Union[str, None]
    """Its execution. Null unless it was enqueued."""


class TextDiffLinesItem(TypedDict):
    kind: Literal["same", "removed", "added", "skipped"]
    """removed: only in the first. added: only in the second. skipped: lines left out
    here."""
    text: str
    """At most 500 characters of the line, or how many lines are skipped."""


class TextDiff(TypedDict):
    same: bool
    """Whether the two texts are equal."""
    added: int
    """Lines that only the second has."""
    removed: int
    """Lines that only the first has."""
    exact: bool
    """False if the texts are too different to find every common line. The counts are
    then too high."""
    lines: list[TextDiffLinesItem]
    """The changed lines with three lines around them, at most 400."""


class SeriesFigures(TypedDict):
    count: list[Union[float, None]]
    """Attempts that ended. Null where they were not counted."""
    wait_p50_ms: list[Union[float, None]]
    """Median queue_ms, milliseconds. Null without attempts."""
    wait_p95_ms: list[Union[float, None]]
    """95th percentile of queue_ms, milliseconds."""
    run_p50_ms: list[Union[float, None]]
    """Median duration_ms of attempts that opened a sandbox, milliseconds. Null without
    such attempts."""
    run_p95_ms: list[Union[float, None]]
    """95th percentile of the same durations, milliseconds."""
    cost: list[Union[float, None]]
    """Cost in micro-units. Null where it was not counted."""


class StatsGroupsItem(TypedDict):
    count: list[Union[float, None]]
    """Attempts that ended. Null where they were not counted."""
    wait_p50_ms: list[Union[float, None]]
    """Median queue_ms, milliseconds. Null without attempts."""
    wait_p95_ms: list[Union[float, None]]
    """95th percentile of queue_ms, milliseconds."""
    run_p50_ms: list[Union[float, None]]
    """Median duration_ms of attempts that opened a sandbox, milliseconds. Null without
    such attempts."""
    run_p95_ms: list[Union[float, None]]
    """95th percentile of the same durations, milliseconds."""
    cost: list[Union[float, None]]
    """Cost in micro-units. Null where it was not counted."""
    key: Union[str, None]
    """The ending, backend or tenant. Null for attempts that opened no sandbox."""


class Stats(TypedDict):
    starts_at: str
    """Start of the first step."""
    ends_at: str
    """End of the last step, exclusive."""
    step_ms: int
    """Length of a step, milliseconds."""
    group_by: Union[Literal["ending", "backend", "tenant"], None]
    """What groups stand for. Null without groups."""
    counted_from: str
    """Steps before this were not counted, because the range has too many attempts.
    Otherwise equal to starts_at."""
    total: SeriesFigures
    """All attempts of the range."""
    groups: list[StatsGroupsItem]
    """At most 20, those with the most attempts first. Empty without group_by."""
    rest: Union[SeriesFigures, None]
    """The other groups together. Null if there are none."""


class TemplateSandboxNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class _TemplateSandboxRequired(TypedDict):
    environment: Literal["default-public", "internal-only"]
    """The environment that its agents run in. internal-only has no network."""


class TemplateSandbox(_TemplateSandboxRequired, total=False):
    network: Union[Literal["none"], Literal["public"], TemplateSandboxNetwork]
    """What a program may reach. The stricter of this and the tenant’s applies. Default:
    the tenant’s."""
    min_isolation: Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"]
    """The weakest isolation. The stricter of this and the tenant’s applies. Default:
    the tenant’s."""
    retention_days: int
    """Days after which audit rows are deleted. The stricter of this and the tenant’s
    applies. Default: the tenant’s."""
    encrypt_outputs: bool
    """Store full outputs encrypted. The stricter of this and the tenant’s applies.
    Default: the tenant’s."""


class Template(TypedDict):
    template_id: str
    """The template."""
    tenant_id: str
    """Its tenant."""
    sandbox: Union[TemplateSandbox, None]
    """Settings of the sandboxes. Null: executions under this template are refused."""


class Tenant(TypedDict):
    policy: TenantPolicy
    """What it may do."""
    caps: TenantCaps
    """Its caps."""


class TenantCaps(TypedDict):
    tenant_daily: Union[int, None]
    """Charged attempts per UTC day. 0 stops the tenant. Null (default): that of the
    fleet, 1,000."""
    agent_hourly: Union[int, None]
    """Charged attempts per agent and UTC hour. 0 stops its agents. Null (default): that
    of the fleet, 100."""
    agents: dict[str, int]
    """Hourly caps of single agents, instead of agent_hourly. Default: none."""
    concurrency: Union[int, None]
    """Executions that may run at once. Null (default): all slots of the fleet. While
    its runs take 1 s or more on average, or none has ended yet, the tenant leaves a
    quarter of the slots to others."""
    max_queued: Union[int, None]
    """Executions that may be queued at once. Null (default): that of the fleet, 10,000."""
    weight: float
    """Share of the fleet under contention, relative to other tenants. Default: 1."""
    rate_per_second: Union[float, None]
    """Sustained starts per second. Null (default): no rate limit."""
    burst: int
    """Starts that may come at once before rate_per_second holds them back. Default: 1."""
    tenant_daily_cpu_seconds: Union[int, None]
    """CPU seconds per UTC day. Null (default): no cap. Admission reserves the most that
    an attempt may use. When the attempt ends, its real use counts instead."""
    tenant_daily_cost: Union[int, None]
    """Cost per UTC day, micro-units. Null (default): no cap. Prices are in the workers’
    configuration."""


class TenantPolicyNetwork(TypedDict):
    allow: list[str]
    """Hosts that may be reached: host, *.host or host:port. Without a port: 80 and 443."""


class TenantPolicyPackages(TypedDict):
    """Packages that install may fetch. Default: none."""
    pypi: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""
    npm: list[str]
    """Packages and versions: `name`, `name==1.2.*`, `@scope/*` or `*`. At most 2,000."""


class TenantPolicyCommands(TypedDict):
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    allow: Union[list[str], None]
    """The only programs that may be named, at most 512. Null: all but those of block."""
    block: list[str]
    """Programs that may not be named, at most 512."""


class TenantPolicyTemplates(TypedDict):
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    required: bool
    """Refuse executions that no template applies to."""
    agents: dict[str, str]
    """The template of each agent. A request of that agent which names another template
    is refused."""


class TenantPolicy(TypedDict):
    tenant_id: str
    """The tenant."""
    sandbox_enabled: bool
    """False: every execution is refused, uncharged. Default: true if compliance_tier is
    standard, else false."""
    compliance_tier: Literal["standard", "regulated", "hipaa"]
    """regulated and hipaa: code runs only under a template with strict settings.
    Default: standard."""
    min_isolation: Literal["none", "process", "jail", "container", "gvisor", "microvm-emulated", "microvm"]
    """The weakest isolation that programs of the tenant may have. Neither a request nor
    fallback to another backend can lower it. Default: jail."""
    environments: list[Literal["default-public", "internal-only"]]
    """Environments that are provisioned for the tenant. Default: both."""
    retention_days: int
    """Days after which audit rows, with results and outputs, are deleted. Default: 30."""
    redact: list[str]
    """Literal values, 12 characters or more each, that are replaced in all output of
    the tenant’s programs. At most 64. Default: none."""
    network: Union[Literal["none"], Literal["public"], TenantPolicyNetwork]
    """What a program may reach. A request can only restrict it. If this is public, a
    request may list hosts with any port. Private addresses are always refused."""
    packages: TenantPolicyPackages
    """Packages that install may fetch. Default: none."""
    commands: TenantPolicyCommands
    """Programs that commands may name. No security boundary (docs/command-policy.md).
    Default: all."""
    templates: TenantPolicyTemplates
    """Which agents must run under a template. An API key can also be bound to one.
    Default: none."""
    encrypt_outputs: bool
    """Store full outputs and artifacts encrypted."""
    output_retention_days: Union[int, None]
    """Days after which full outputs and artifacts are deleted. Null (default): together
    with their rows."""
    max_artifact_bytes: int
    """The highest limits.artifact_bytes that a request may ask for, bytes."""
    max_artifacts_total_bytes: int
    """The highest limits.artifacts_total_bytes that a request may ask for, bytes."""
    max_artifact_count: int
    """The highest limits.artifact_count that a request may ask for."""
    run_sessions: bool
    """Executions with a run_id share the session of their run, unless they set session
    or reuse."""
    keep_program: Literal["never", "errors", "always"]
    """Which requests are kept when they end, to be run again: none (never, the
    default), those that did not end ok (errors), or all (always). They are deleted
    together with full outputs."""
    allow_emulation: bool
    """Programs may run in a machine that is only emulated (isolation microvm-emulated),
    which is no boundary of security. Default: false."""


__all__ = [
    "Accepted",
    "Artifact",
    "AuditRow",
    "CapsUse",
    "ComparedSide",
    "Comparison",
    "Error",
    "ExecutionEvent",
    "ExecutionRequest",
    "ExecutionResult",
    "ExecutionState",
    "ExecutionTrace",
    "ExecutionWhy",
    "QueueTenants",
    "ReadableTenant",
    "ReadableTenantPolicy",
    "Rerun",
    "RerunRequest",
    "Routine",
    "RoutineRun",
    "SeriesFigures",
    "Stats",
    "Template",
    "Tenant",
    "TenantCaps",
    "TenantCapsInput",
    "TenantPolicy",
    "TenantPolicyInput",
    "TextDiff",
]
