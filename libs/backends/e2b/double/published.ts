/**
 * E2B's wire format as E2B publishes it.
 *
 *   API    e2b-dev/E2B, spec/openapi.yml @b8029973, and types of npm `e2b` 2.51.0 for /v2 create and connect
 *   ENVD   there too, spec/envd: envd.yaml, process/process.proto, filesystem/filesystem.proto (JSON)
 */
import { z } from 'zod'
import { createPublished, type Operation } from '@cofferdam/backend-remote/double'

const API = 'spec/openapi.yml @b8029973'
const V2 = 'npm e2b 2.51.0'
const ENVD = 'spec/envd @b8029973'

const texts = z.record(z.string(), z.string())
const seconds = z.int().min(0)
const time = z.iso.datetime()

/** API, `NewSandboxV2`. */
const newSandboxV2 = z.strictObject({
  templateID: z.string(),
  timeout: seconds.optional(),
  autoPause: z.boolean().optional(),
  autoPauseMemory: z.boolean().optional(),
  autoResume: z.strictObject({ enabled: z.boolean() }).optional(),
  allow_internet_access: z.boolean().optional(),
  network: z
    .strictObject({
      allowPublicTraffic: z.boolean().optional(),
      allowOut: z.array(z.string()).optional(),
      denyOut: z.array(z.string()).optional(),
      egressProxy: z.unknown().optional(),
      maskRequestHost: z.string().optional(),
      rules: z.record(z.string(), z.array(z.unknown())).optional(),
    })
    .optional(),
  metadata: texts.optional(),
  envVars: texts.optional(),
  mcp: z.unknown().optional(),
  iam: z.unknown().optional(),
  volumeMounts: z.array(z.strictObject({ name: z.string(), path: z.string() })).optional(),
})
/** API, `NewSandbox`: may leave the sandbox unsecured. */
const newSandbox = newSandboxV2.extend({ secure: z.boolean().optional() })

/** API, `Sandbox`. */
const sandbox = z.strictObject({
  templateID: z.string(),
  sandboxID: z.string(),
  alias: z.string().optional(),
  clientID: z.string(),
  envdVersion: z.string(),
  envdAccessToken: z.string().optional(),
  trafficAccessToken: z.string().nullish(),
  domain: z.string().nullish(),
})
/** API, `ListedSandbox`. */
const listed = z.strictObject({
  templateID: z.string(),
  alias: z.string().optional(),
  sandboxID: z.string(),
  clientID: z.string(),
  startedAt: time,
  endAt: time,
  cpuCount: z.int().min(1),
  memoryMB: z.int().min(128),
  diskSizeMB: z.int().min(0),
  metadata: texts.optional(),
  state: z.enum(['running', 'paused']),
  envdVersion: z.string(),
  volumeMounts: z.array(z.unknown()).optional(),
})
/** API, `SandboxDetail`. */
const detail = listed.extend({
  envdAccessToken: z.string().optional(),
  allowInternetAccess: z.boolean().nullish(),
  domain: z.string().nullish(),
  network: z.unknown().optional(),
  lifecycle: z.strictObject({ autoResume: z.boolean(), onTimeout: z.enum(['kill', 'pause']) }).optional(),
})
/** API, `Error`. */
const refusal = z.strictObject({ code: z.int(), message: z.string() })

const CONTROL_OPERATIONS: readonly Operation[] = [
  { source: API, method: 'POST', path: /^\/sandboxes$/, request: newSandbox, answers: { 201: sandbox } },
  { source: V2, method: 'POST', path: /^\/v2\/sandboxes$/, request: newSandboxV2, answers: { 201: sandbox } },
  { source: API, method: 'GET', path: /^(\/v2)?\/sandboxes$/, answers: { 200: z.array(listed) } },
  { source: API, method: 'GET', path: /^\/sandboxes\/[a-z0-9]+$/, answers: { 200: detail } },
  { source: API, method: 'DELETE', path: /^\/sandboxes\/[a-z0-9]+$/, answers: { 204: null } },
  {
    source: API,
    method: 'POST',
    path: /^\/sandboxes\/[a-z0-9]+\/timeout$/,
    request: z.strictObject({ timeout: seconds }),
    answers: { 204: null },
  },
  {
    source: API,
    method: 'POST',
    path: /^\/sandboxes\/[a-z0-9]+\/connect$/,
    request: z.strictObject({ timeout: seconds }),
    answers: { 200: sandbox, 201: sandbox },
  },
  {
    source: V2,
    method: 'POST',
    path: /^\/v2\/sandboxes\/[a-z0-9]+\/connect$/,
    request: z.strictObject({ timeout: seconds.optional(), memory: z.boolean().optional() }),
    answers: { 200: sandbox, 201: sandbox },
  },
]

/** The control API. */
export const E2B = createPublished('E2B', CONTROL_OPERATIONS, refusal)

/** JSON of proto3: int64 is a string, bytes are base64. */
const bytes = z.base64()
const processConfig = z.strictObject({
  cmd: z.string(),
  args: z.array(z.string()).optional(),
  envs: texts.optional(),
  cwd: z.string().optional(),
})
const entry = z.strictObject({
  name: z.string(),
  // JSON of proto3 omits zeros, such as the type of a broken link.
  type: z.enum(['FILE_TYPE_FILE', 'FILE_TYPE_DIRECTORY', 'FILE_TYPE_SYMLINK']).optional(),
  path: z.string(),
  size: z
    .string()
    .regex(/^[1-9]\d*$/)
    .optional(),
  mode: z.int().min(1).optional(),
  permissions: z.string(),
  owner: z.string(),
  group: z.string(),
  modifiedTime: time,
  symlinkTarget: z.string().optional(),
  metadata: texts.optional(),
})
const one = z.strictObject({ entry })
const filesystemEvent = z.strictObject({
  name: z.string(),
  type: z.enum([
    'EVENT_TYPE_CREATE',
    'EVENT_TYPE_WRITE',
    'EVENT_TYPE_REMOVE',
    'EVENT_TYPE_RENAME',
    'EVENT_TYPE_CHMOD',
  ]),
  entry: entry.optional(),
})
const nothing = z.strictObject({})
const call = (service: string, method: string, answer: z.ZodType): Operation => ({
  source: ENVD,
  method: 'POST',
  path: new RegExp(`^/${service.replace('.', '\\.')}/${method}$`),
  answers: { 200: answer },
})

const ENVD_OPERATIONS: readonly Operation[] = [
  call(
    'process.Process',
    'List',
    z.strictObject({
      processes: z.array(z.strictObject({ config: processConfig, pid: z.int(), tag: z.string().optional() })),
    }),
  ),
  call('process.Process', '(SendInput|CloseStdin|SendSignal)', nothing),
  call('filesystem.Filesystem', '(Stat|MakeDir|Move)', one),
  call('filesystem.Filesystem', 'ListDir', z.strictObject({ entries: z.array(entry) })),
  call('filesystem.Filesystem', '(Remove|RemoveWatcher)', nothing),
  call('filesystem.Filesystem', 'CreateWatcher', z.strictObject({ watcherId: z.string() })),
  call(
    'filesystem.Filesystem',
    'GetWatcherEvents',
    z.strictObject({ events: z.array(filesystemEvent).optional() }),
  ),
  {
    source: ENVD,
    method: 'POST',
    path: /^\/files$/,
    answers: {
      200: z.array(
        z.strictObject({
          name: z.string(),
          path: z.string(),
          type: z.literal('file'),
          metadata: texts.optional(),
        }),
      ),
    },
  },
  { source: ENVD, method: 'GET', path: /^\/envs$/, answers: { 200: texts } },
  { source: ENVD, method: 'GET', path: /^\/health$/, answers: { 204: null } },
]

/** Errors of Connect's unary calls have a code name, those of plain paths a number (ENVD, `Error`). */
const envdRefusal = z.strictObject({ code: z.union([z.string(), z.int()]), message: z.string() })

/** envd in a sandbox, except its streams. */
export const E2B_ENVD = createPublished('E2B (envd)', ENVD_OPERATIONS, envdRefusal)

/** A message of the stream of `WatchDir` (ENVD, `WatchDirResponse`). */
export const watchEvent = z.union([
  z.strictObject({ start: nothing }),
  z.strictObject({ filesystem: filesystemEvent }),
  z.strictObject({ keepalive: nothing }),
])

/** A message of the streams of `Start` and `Connect` (ENVD, `ProcessEvent`). */
export const processEvent = z.strictObject({
  event: z.union([
    z.strictObject({ start: z.strictObject({ pid: z.int() }) }),
    z.strictObject({
      data: z.union([z.strictObject({ stdout: bytes }), z.strictObject({ stderr: bytes })]),
    }),
    z.strictObject({
      end: z.strictObject({
        exitCode: z.int().optional(),
        exited: z.boolean().optional(),
        status: z.string(),
        error: z.string().optional(),
      }),
    }),
    z.strictObject({ keepalive: nothing }),
  ]),
})
