/** Every bound of the wire. Bytes unless the name says otherwise. */
import { z } from 'zod'

const KiB = 1024
const MiB = 1024 * KiB

export const BOUNDS = {
  /** Program source. The largest files of public code corpora are smaller. Larger programs can be files. */
  sourceBytes: 1 * MiB,
  stdinBytes: 4 * MiB,
  fileBytes: 8 * MiB,
  filesTotalBytes: 16 * MiB,
  /**
   * Enough for a project with its tests. The names of all files fit into one frame of the guest protocol (1
   * MiB).
   */
  fileCount: 1000,
  /** Linux PATH_MAX is 4,096, and the work directory is put in front. */
  pathLength: 512,
  argvCount: 256,
  /** Sessions that one fork makes. */
  forks: 16,
  argBytes: 128 * KiB,
  envCount: 128,
  envNameLength: 128,
  envValueBytes: 32 * KiB,
  artifactGlobs: 32,
  /** Files that `artifacts_omitted` lists. `artifacts_incomplete` tells that there are more. */
  artifactsOmitted: 100,
  idLength: 128,
  /** Redacted output kept in full for later fetching, per stream. */
  fullOutputBytes: 16 * MiB,
  /** JSON body of one HTTP request: files in base64 (4/3 of 16 MiB) and the other fields. */
  requestBodyBytes: 28 * MiB,
  /** Returned value of a script, as JSON text. */
  valueBytes: 32 * KiB,
  failureReasonLength: 2000,
  /** Long enough for a name and a reason for each of the few backends of a worker. */
  passedOverLength: 512,
  /**
   * A vendor's name for a sandbox. On Kubernetes it joins the names of a claim and a pod, which have 63
   * characters each.
   */
  vendorRefLength: 256,
  /** An execution may not wait longer than this before it starts (also the longest `delay_ms`). */
  queueWaitMs: 24 * 3_600_000,
  /** All files that an attempt may leave to the next one. The same bound as for artifacts. */
  checkpointBytes: 16 * MiB,
  checkpointFiles: 256,
  /** Workspaces of a tenant: as many as routines, and one page lists them all. */
  workspaces: 1000,
  /** A workspace is written into a sandbox at once, so the bounds of `files` apply. */
  workspaceFiles: 1000,
  workspaceBytes: 16 * MiB,
  workspaceFileBytes: 8 * MiB,
  /** Every path is matched against every rule. */
  workspaceRules: 256,
  /** Folders above a file. The deepest file of a machine with several SDKs lies in 19 folders. */
  workspaceFolders: 32,
  /** Parts of a rule's pattern: as many names as a path may have, and some `**` between them. */
  patternParts: 40,
  /** Parts `**`. Two are common. */
  patternGlobstars: 8,
  /** All characters `*` of a pattern: one for each part, another for each `**`, and some more in names. */
  patternStars: 64,
  /** One progress message, in characters. */
  progressMessageLength: 200,
} as const

/** Time between the soft and the hard deadline when the caller does not set both. */
export const DEFAULT_GRACE_MS = 5000

/**
 * The default soft deadline: DEFAULT_GRACE_MS before the hard deadline, but not before half of the hard
 * timeout.
 */
export const softTimeoutOf = (hardTimeoutMs: number): number =>
  Math.max(Math.floor(hardTimeoutMs / 2), hardTimeoutMs - DEFAULT_GRACE_MS)

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

/** Where a program runs. */
const WORK_FOLDER = '/tmp/work'

/**
 * What every sandbox has, whichever backend made it, so that a program runs on all of them. The theme
 * `surroundings` of the conformance suite checks it, and docs/sandboxes.md tells users.
 */
export const SURROUNDINGS = {
  /** Resolves to the loopback address, like `localhost`. */
  hostName: 'sandbox',
  /** RLIMIT_NOFILE, soft and hard. A bundler or package manager opens a few thousand files at once. */
  openFiles: 4096,
  /**
   * Size of /dev/shm. Locks of Python's multiprocessing need it, but it is also memory that no disk limit
   * covers. Docker's default is 64 MiB.
   */
  shmBytes: 16 * MiB,
  workFolder: WORK_FOLDER,
  /**
   * Symbolic links, for programs that expect these folders. The last two are Anthropic's names for an agent's
   * outputs (`/mnt/session/outputs`) and memory. They dangle until somebody creates their targets.
   */
  links: {
    '/var/tmp': '/tmp',
    '/mnt/data': WORK_FOLDER,
    '/mnt/session': `${WORK_FOLDER}/.session`,
    '/mnt/memory': `${WORK_FOLDER}/.session/memory`,
  },
} as const

export const MAX_LIMITS = {
  timeout_ms: 24 * 3_600_000,
  /** In the interactive lane. A longer run would keep its slot from callers who wait for an answer. */
  interactive_timeout_ms: 3_600_000,
  memory_mib: 16_384,
  cpus: 16,
  pids: 4096,
  disk_mib: 16_384,
  stdout_bytes: 4 * MiB,
  stderr_bytes: 4 * MiB,
  /** The largest stored blob. A worker holds one artifact at a time in memory. */
  artifact_bytes: 64 * MiB,
  artifacts_total_bytes: 512 * MiB,
  artifact_count: 4096,
} as const

const timeoutMs = z.int().min(10).max(MAX_LIMITS.timeout_ms)
/** The limits as a caller writes them. A missing deadline is not yet derived from the other one. */
export const limitFieldsSchema = z.strictObject({
  soft_timeout_ms: timeoutMs.optional().meta({
    description:
      'Soft deadline, milliseconds: the program is asked to stop, and its output is kept. Default: ' +
      'hard_timeout_ms less 5,000, but at least half of it; 25,000 if neither is given.',
    example: 5000,
  }),
  hard_timeout_ms: timeoutMs.optional().meta({
    description:
      'Hard deadline, milliseconds: the whole process tree is killed. At most 1 hour, or 24 hours with ' +
      'lane routine. Default: 5,000 after the soft deadline; 30,000 if neither is given.',
    example: 8000,
  }),
  heartbeat_timeout_ms: z
    .int()
    .min(100)
    .max(MAX_LIMITS.timeout_ms)
    .optional()
    .meta({
      description:
        'Longest time without a progress report, milliseconds. After it, the program is asked to stop, and ' +
        '5 s later it is killed. Default: no limit.',
      example: 60_000,
    }),
  cpu_time_ms: z.int().min(10).max(MAX_LIMITS.timeout_ms).optional().meta({
    description:
      'CPU time of all processes together, milliseconds, in addition to the deadlines. Default: no limit.',
    example: 20_000,
  }),
  memory_mib: z.int().min(16).max(MAX_LIMITS.memory_mib).default(DEFAULT_LIMITS.memory_mib).meta({
    description: 'Memory of all processes together, MiB. Beyond it, the execution ends oom.',
    example: 256,
  }),
  cpus: z.number().min(0.05).max(MAX_LIMITS.cpus).default(DEFAULT_LIMITS.cpus).meta({
    description: 'Processors that may be used at once. A fraction slows the program down.',
    example: 1,
  }),
  pids: z.int().min(4).max(MAX_LIMITS.pids).default(DEFAULT_LIMITS.pids).meta({
    description: 'Processes and threads at one time.',
    example: 128,
  }),
  disk_mib: z.int().min(1).max(MAX_LIMITS.disk_mib).default(DEFAULT_LIMITS.disk_mib).meta({
    description: 'Files that the program may write, MiB. A container’s disk is part of its memory.',
    example: 64,
  }),
  stdout_bytes: z.int().min(0).max(MAX_LIMITS.stdout_bytes).default(DEFAULT_LIMITS.stdout_bytes).meta({
    description: 'Bytes of stdout in the result: its head. The full output is fetched separately.',
    example: 262_144,
  }),
  stderr_bytes: z.int().min(0).max(MAX_LIMITS.stderr_bytes).default(DEFAULT_LIMITS.stderr_bytes).meta({
    description: 'Bytes of stderr in the result: its tail. The full output is fetched separately.',
    example: 32_768,
  }),
  on_output_limit: z.enum(['truncate', 'kill']).default(DEFAULT_LIMITS.on_output_limit).meta({
    description:
      'What happens beyond stdout_bytes or stderr_bytes: the output is cut, or the program is killed.',
  }),
  artifact_bytes: z
    .int()
    .min(0)
    .max(MAX_LIMITS.artifact_bytes)
    .default(DEFAULT_LIMITS.artifact_bytes)
    .meta({
      description:
        'Size of the largest artifact, bytes. A value above the default must be allowed by the policy of ' +
        'the tenant. The same holds for artifacts_total_bytes and artifact_count.',
      example: 8_388_608,
    }),
  artifacts_total_bytes: z
    .int()
    .min(0)
    .max(MAX_LIMITS.artifacts_total_bytes)
    .default(DEFAULT_LIMITS.artifacts_total_bytes)
    .meta({ description: 'Size of all artifacts together, bytes.', example: 16_777_216 }),
  artifact_count: z.int().min(0).max(MAX_LIMITS.artifact_count).default(DEFAULT_LIMITS.artifact_count).meta({
    description: 'Number of artifacts.',
    example: 256,
  }),
})

export const limitsSchema = limitFieldsSchema
  .transform((l) => {
    const hard =
      l.hard_timeout_ms ??
      (l.soft_timeout_ms === undefined
        ? DEFAULT_LIMITS.hard_timeout_ms
        : l.soft_timeout_ms + DEFAULT_GRACE_MS)
    const soft = l.soft_timeout_ms ?? softTimeoutOf(hard)
    return { ...l, soft_timeout_ms: soft, hard_timeout_ms: hard }
  })
  .refine((l) => l.soft_timeout_ms <= l.hard_timeout_ms, {
    path: ['soft_timeout_ms'],
    message: 'expected soft_timeout_ms to be at most hard_timeout_ms',
  })
export type Limits = z.infer<typeof limitsSchema>

export const utf8 = (bytes: number) =>
  z
    .string()
    .max(bytes)
    .refine((text) => Buffer.byteLength(text) <= bytes, `expected at most ${bytes} bytes of UTF-8`)
