/** Addresses of what an execution left, `cofferdam://executions/{id}/…`: artifacts and output. */
import { executionIdSchema, pathSchema, type ExecutionId } from '@cofferdam/contract'

const BASE = 'cofferdam://executions/'

export const ARTIFACT_TEMPLATE = `${BASE}{execution_id}/artifacts/{+path}`
export const OUTPUT_TEMPLATE = `${BASE}{execution_id}/output/{stream}`

export const artifactUri = (id: ExecutionId, path: string): string =>
  `${BASE}${id}/artifacts/${encodePath(path)}`

const encodePath = (path: string): string => path.split('/').map(encodeURIComponent).join('/')

export type Named =
  | { kind: 'artifact'; id: ExecutionId; path: string }
  | { kind: 'output'; id: ExecutionId; stream: 'stdout' | 'stderr' }

/** What `uri` names. Null when it is no address of ours. */
export function readUri(uri: string): Named | null {
  const [, id, kind, rest] = /^cofferdam:\/\/executions\/([^/]+)\/(artifacts|output)\/(.+)$/s.exec(uri) ?? []
  const parsed = executionIdSchema.safeParse(id)
  if (!parsed.success || rest === undefined) return null
  if (kind === 'output')
    return rest === 'stdout' || rest === 'stderr' ? { kind: 'output', id: parsed.data, stream: rest } : null
  const path = decodePath(rest)
  return path !== null && pathSchema.safeParse(path).success
    ? { kind: 'artifact', id: parsed.data, path }
    : null
}

/** Null for a path that is not valid percent-encoding. */
function decodePath(text: string): string | null {
  try {
    return text.split('/').map(decodeURIComponent).join('/')
  } catch {
    return null
  }
}
