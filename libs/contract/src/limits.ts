/** Every bound of the wire in one place. Bytes unless the name says otherwise. */

const KiB = 1024
const MiB = 1024 * KiB

export const BOUNDS = {
  /** Program source. The largest files of public code corpora stay below it; larger programs go in as files. */
  sourceBytes: 1 * MiB,
  stdinBytes: 4 * MiB,
  fileBytes: 8 * MiB,
  filesTotalBytes: 16 * MiB,
  /** A project with its tests; their names stay below one frame of the guest protocol (1 MiB). */
  fileCount: 1000,
  /** Linux PATH_MAX is 4,096; our work directory prefix needs room. */
  pathLength: 512,
  argvCount: 256,
  argBytes: 128 * KiB,
  envCount: 128,
  envNameLength: 128,
  envValueBytes: 32 * KiB,
  artifactGlobs: 32,
  /** Files that `artifacts_omitted` names; `artifacts_incomplete` says that there are more. */
  artifactsOmitted: 100,
  idLength: 128,
  /** Redacted output kept in full for later fetching, per stream. */
  fullOutputBytes: 16 * MiB,
  /** JSON body of one HTTP request: base64 files (4/3 of 16 MiB) and the rest. */
  requestBodyBytes: 28 * MiB,
  /** Returned value of a script, as JSON text. */
  valueBytes: 32 * KiB,
  failureReasonLength: 2000,
  /** A backend's name and a word for each of the few that a worker has. */
  passedOverLength: 512,
  /** Of what a vendor calls a sandbox: a claim's and a pod's name have 63 characters each. */
  vendorRefLength: 256,
  /** An execution may not wait longer than this before it starts (also the longest `delay_ms`). */
  queueWaitMs: 24 * 3_600_000,
  /** What an attempt may leave to the next one, all files together: the bound of artifacts for the same reason. */
  checkpointBytes: 16 * MiB,
  checkpointFiles: 256,
  /** A workspace goes into a sandbox in one write: the bounds of files. */
  workspaceFiles: 1000,
  workspaceBytes: 16 * MiB,
  workspaceFileBytes: 8 * MiB,
  /** Each path is held against each rule. */
  workspaceRules: 256,
  /** One progress message, in characters. */
  progressMessageLength: 200,
} as const

/** Limits of an execution when the caller names none (DESIGN §4). */
export const DEFAULT_LIMITS = {
  soft_timeout_ms: 25_000,
  hard_timeout_ms: 30_000,
  memory_mib: 256,
  cpus: 1,
  pids: 128,
  disk_mib: 64,
  stdout_bytes: 262_144,
  stderr_bytes: 32_768,
  on_output_limit: 'truncate',
  artifact_bytes: 8 * MiB,
  artifacts_total_bytes: 16 * MiB,
  artifact_count: 256,
} as const

/**
 * What every sandbox of ours has, whichever backend made it: programs that run on one run on all. The theme
 * `surroundings` of the conformance suite holds backends to it, and docs/sandboxes.md tells users.
 */
export const SURROUNDINGS = {
  /** Resolves to the loopback, as `localhost` does. */
  hostName: 'sandbox',
  /** RLIMIT_NOFILE, soft and hard. A bundler or a package manager opens some thousand files at once. */
  openFiles: 4096,
  /**
   * Of /dev/shm: multiprocessing's locks need it, but it is a second disk beside /tmp. Docker's default is 64
   * MiB.
   */
  shmBytes: 16 * MiB,
  workFolder: '/tmp/work',
  /**
   * Other names of folders, as links: what looks for a temporary or a data folder finds the sandbox's own.
   */
  links: { '/var/tmp': '/tmp', '/mnt/data': '/tmp/work' },
} as const

/** The largest limits that a request may ask for. */
export const MAX_LIMITS = {
  timeout_ms: 24 * 3_600_000,
  /** In the interactive lane: what takes longer than an hour keeps a slot from those who wait for an answer. */
  interactive_timeout_ms: 3_600_000,
  memory_mib: 16_384,
  cpus: 16,
  pids: 4096,
  disk_mib: 16_384,
  stdout_bytes: 4 * MiB,
  stderr_bytes: 4 * MiB,
  /** The largest blob that is stored; a worker holds one whole artifact in memory at a time. */
  artifact_bytes: 64 * MiB,
  artifacts_total_bytes: 512 * MiB,
  artifact_count: 4096,
} as const

/** Caps of a tenant that has none of its own (seed 000). */
export const DEFAULT_CAPS = { tenant_daily: 1000, agent_hourly: 100 } as const
