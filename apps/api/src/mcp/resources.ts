/** `resources/templates/list` and `resources/read`: artifacts and output that the caller's key may see. */
import { isUtf8 } from 'node:buffer'
import { BOUNDS, isCofferdamError } from '@cofferdam/contract'
import {
  ProtocolError,
  ProtocolErrorCode,
  ResourceNotFoundError,
  type ReadResourceResult,
  type ResourceTemplateType,
} from '@modelcontextprotocol/server'
import { tenantScope } from '../authenticate.ts'
import { requireEnded, type EndedExecution } from '../find-execution.ts'
import { mediaTypeOf } from '../media-type.ts'
import { blobSource, bytesSource, type ByteSource } from '../send-bytes.ts'
import type { Exchange } from './exchange.ts'
import { ARTIFACT_TEMPLATE, OUTPUT_TEMPLATE, readUri, type Named } from './resource-uris.ts'

/** A resource is in memory as a whole when it is sent, so larger ones must be read over HTTP. */
const READ_MAX = BOUNDS.fileBytes

export const RESOURCE_TEMPLATES: ResourceTemplateType[] = [
  {
    name: 'artifact',
    title: 'A file that an execution left',
    uriTemplate: ARTIFACT_TEMPLATE,
    description: 'Paths are in the artifacts of the result.',
  },
  {
    name: 'output',
    title: 'The full output of an execution',
    uriTemplate: OUTPUT_TEMPLATE,
    description: 'stream is stdout or stderr. Secrets are replaced.',
    mimeType: 'text/plain',
  },
]

/**
 * Throws the protocol error `InvalidParams` when the resource does not exist, is not the caller's, or is too
 * large.
 */
export async function readResource(exchange: Exchange, uri: string): Promise<ReadResourceResult> {
  const named = readUri(uri)
  if (named === null) throw new ResourceNotFoundError(uri)
  const source = await sourceOf(exchange, named, uri)
  if (source === null) throw new ResourceNotFoundError(uri)
  if (source.total > READ_MAX)
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `It has ${source.total} bytes. At most ${READ_MAX} can be read here. Read it over HTTP.`,
      { uri, http_path: httpPathOf(named) },
    )
  const bytes = Buffer.from(await source.read({ start: 0, end: source.total }))
  const mimeType = named.kind === 'output' ? 'text/plain' : mediaTypeOf(bytes, bytes.length)
  const text = isUtf8(bytes) ? bytes.toString() : null
  return {
    contents: [text === null ? { uri, mimeType, blob: bytes.toString('base64') } : { uri, mimeType, text }],
  }
}

async function sourceOf(
  { context, request }: Exchange,
  named: Named,
  uri: string,
): Promise<ByteSource | null> {
  try {
    const ended = await requireEnded(context, tenantScope(request), named.id)
    const ref = refOf(ended, named)
    const full = ref === null ? null : await blobSource(context.store.blobs, ref)
    return full ?? (named.kind === 'output' ? bytesSource(Buffer.from(ended.result[named.stream])) : null)
  } catch (error) {
    if (!isCofferdamError(error)) throw error
    if (error.code === 'not_found') throw new ResourceNotFoundError(uri)
    const code = error.entry.http < 500 ? ProtocolErrorCode.InvalidParams : ProtocolErrorCode.InternalError
    throw new ProtocolError(code, `${error.code}: ${error.message} ${error.entry.hint}`, { uri })
  }
}

function refOf({ last, artifactRefs }: EndedExecution, named: Named): string | null {
  if (named.kind === 'output') return named.stream === 'stdout' ? last.stdout_ref : last.stderr_ref
  return artifactRefs.find(({ path }) => path === named.path)?.ref ?? null
}

function httpPathOf(named: Named): string {
  const rest =
    named.kind === 'output'
      ? `output/${named.stream}`
      : `artifacts/${named.path.split('/').map(encodeURIComponent).join('/')}`
  return `/v1/executions/${named.id}/${rest}`
}
