/**
 * The data plane of Azure Container Apps dynamic sessions as Microsoft publishes it.
 *
 *   SPEC       Azure/azure-rest-api-specs, specification/app/data-plane/Microsoft.App.DynamicSessions/preview:
 *              DynamicSessions.json, examples of 2024-10-02-, 2025-02-02- and 2025-10-02-preview
 *   CONTAINER  MicrosoftDocs/azure-docs, articles/container-apps/sessions-custom-container.md (2026-03-18)
 *   OLD        same repository, sessions-code-interpreter.md of 2024: /code/execute, /files/upload,
 *              /files/content
 *   SHELL      langchain-ai/langchain-azure, SessionsBashTool: shell pools, whose `status` is the exit code
 */
import { z } from 'zod'
import { createPublished, type Operation } from '@cofferdam/backend-remote/double'

const SPEC = 'DynamicSessions.json 2025-10-02-preview'
const CONTAINER = 'sessions-custom-container.md 2026-03-18'
const OLD = 'sessions-code-interpreter.md 2024'

const time = z.iso.datetime()
/** SPEC says `format: uri`, so the URL must be absolute. */
const link = z.url().nullish()

/** SPEC, `Session`. */
const session = z.strictObject({
  identifier: z.string(),
  createdAt: time,
  lastAccessedAt: time,
  expireAt: time,
  etag: z.string(),
})
/** CONTAINER, `SessionView`: here the session's end is `expiresAt`, not `expireAt`. */
const sessionView = z.strictObject({
  identifier: z.string(),
  etag: z.string(),
  expiresAt: time,
  createdAt: time.optional(),
  lastAccessedAt: time.optional(),
})
/** SPEC, `SessionResourceFile`. Its examples have the types `File` and `Directory`. */
const file = z.strictObject({
  name: z.string(),
  type: z.enum(['File', 'Directory']),
  contentType: z.string().optional(),
  sizeInBytes: z.int().optional(),
  lastModifiedAt: time,
  directory: z.string().optional(),
})
const files = z.strictObject({ value: z.array(file), nextLink: link })
/** SPEC, `SessionCodeExecutionResource`. `status`: `OperationState`, or a shell's exit code (SHELL). */
const execution = z.strictObject({
  id: z.string(),
  identifier: z.string(),
  executionType: z.enum(['Synchronous', 'Asynchronous']),
  status: z.union([
    z.enum(['NotStarted', 'Running', 'Succeeded', 'Failed', 'Canceled']),
    z.string().regex(/^\d{1,3}$/),
  ]),
  error: z.unknown().optional(),
  result: z
    .strictObject({
      stdout: z.string().optional(),
      stderr: z.string().optional(),
      executionResult: z.unknown().optional(),
      executionTimeInMilliseconds: z.int().optional(),
    })
    .optional(),
})
/** SPEC, `SessionCodeExecutionRequest`; `outputStreamsMaxLength` is in its examples. */
const codeRequest = z.strictObject({
  codeInputType: z.enum(['Inline', 'InlineBase64', 'InlineText']),
  executionType: z.enum(['Synchronous', 'Asynchronous']),
  code: z.string(),
  timeoutInSeconds: z.int(),
  outputStreamsMaxLength: z.int().optional(),
})
/** SHELL. */
const shellRequest = z.strictObject({
  shellCommand: z.string().optional(),
  execCommandAndArgs: z.array(z.string()).optional(),
  timeoutInSeconds: z.int().optional(),
  outputStreamsMaxLength: z.int().optional(),
})
/** A part of SPEC, `SessionPoolMetadataResponse`. */
const named = z.strictObject({ name: z.string(), version: z.string() })
const metadata = z.strictObject({
  runtimes: z.array(named),
  preInstalledPackages: z.array(named),
  createdAt: time,
  lastUpdatedAt: time,
  jupyterKernel: z.strictObject({
    name: z.string(),
    version: z.string(),
    projectUrl: z.url(),
    description: z.string(),
  }),
})
/** SPEC, `Azure.Core.Foundations.ErrorResponse`. */
const refusal = z.strictObject({
  error: z.strictObject({ code: z.string(), message: z.string(), target: z.string().optional() }),
})
const oldFiles = z.strictObject({
  value: z.array(
    z.strictObject({
      properties: z.strictObject({ filename: z.string(), size: z.int(), lastModifiedTime: time }),
    }),
  ),
})

const OPERATIONS: readonly Operation[] = [
  {
    source: SPEC,
    method: 'GET',
    path: /^\/listSessions$/,
    answers: { 200: z.strictObject({ sessions: z.array(session), nextLink: link }) },
  },
  { source: SPEC, method: 'GET', path: /^\/session$/, answers: { 200: session } },
  { source: SPEC, method: 'DELETE', path: /^\/session$/, answers: { 204: null } },
  { source: SPEC, method: 'GET', path: /^\/metadata$/, answers: { 200: metadata } },
  {
    source: SPEC,
    method: 'POST',
    path: /^\/executions$/,
    request: z.union([codeRequest, shellRequest]),
    // 202 in the examples of 2025-02-02-preview.
    answers: { 200: execution, 202: execution },
  },
  { source: SPEC, method: 'GET', path: /^\/executions\/[^/]+$/, answers: { 200: execution } },
  { source: SPEC, method: 'GET', path: /^\/files$/, answers: { 200: files } },
  { source: SPEC, method: 'POST', path: /^\/files$/, answers: { 200: file } },
  { source: OLD, method: 'POST', path: /^\/files\/upload$/, answers: { 200: oldFiles } },
  { source: SPEC, method: 'DELETE', path: /^\/files\/[^/]+$/, answers: { 204: null } },
  {
    source: OLD,
    method: 'POST',
    path: /^\/code\/execute$/,
    answers: {
      200: z.strictObject({
        properties: z.strictObject({
          status: z.enum(['Success', 'Failure']),
          stdout: z.string(),
          stderr: z.string(),
          result: z.unknown().optional(),
          executionTimeInMilliseconds: z.int(),
        }),
      }),
    },
  },
  {
    source: 'LlamaIndexTS, packages/providers/azure (@llamaindex/azure 0.2.1)',
    method: 'POST',
    path: /^\/python\/execute$/,
    answers: {
      200: z.strictObject({ result: z.unknown().optional(), stdout: z.string(), stderr: z.string() }),
    },
  },
  {
    source: CONTAINER,
    method: 'POST',
    path: /^\/\.management\/listSessions$/,
    answers: {
      200: z.strictObject({ value: z.array(sessionView), count: z.int(), nextLink: link }),
    },
  },
  { source: CONTAINER, method: 'POST', path: /^\/\.management\/getSession$/, answers: { 200: sessionView } },
]

export const AZURE = createPublished('Azure', OPERATIONS, refusal)

/**
 * Path of a call, relative to the pool's management endpoint. A code pool's endpoint has a path of its own.
 */
export const pathAtPool = (url: string): string =>
  new URL(url, 'http://double').pathname.replace(
    /^\/subscriptions\/[^/]+\/resourceGroups\/[^/]+\/sessionPools\/[^/]+/,
    '',
  )
