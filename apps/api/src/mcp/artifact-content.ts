/** Artifacts in a tool's answer: small images as images, all others as links. */
import type { ExecutionResult } from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { tenantScope } from '../authenticate.ts'
import { findEnded } from '../find-execution.ts'
import type { Exchange } from './exchange.ts'
import { artifactUri, typeOfName } from './resource-uris.ts'

const IMAGES_MAX = 4
const IMAGE_BYTES = 1024 * 1024
/** Links beyond this are left out. All artifacts are in the structured content. */
const LINKS_MAX = 32

type Content = CallToolResult['content']

export async function artifactContent(exchange: Exchange, result: ExecutionResult): Promise<Content> {
  const images = await imagesOf(exchange, result)
  const links = result.artifacts
    .filter(({ path }) => !images.has(path))
    .slice(0, LINKS_MAX)
    .map(({ path, size }) => ({
      type: 'resource_link' as const,
      uri: artifactUri(result.execution_id, path),
      name: path,
      size,
      mimeType: typeOfName(path),
    }))
  return [...images.values(), ...links]
}

/** By path. Empty while the store is away: then there are links. */
async function imagesOf(
  { context, request }: Exchange,
  { artifacts, execution_id }: ExecutionResult,
): Promise<Map<string, Content[number]>> {
  const images = new Map<string, Content[number]>()
  const named = artifacts
    .filter(({ path, size }) => size <= IMAGE_BYTES && typeOfName(path).startsWith('image/'))
    .slice(0, IMAGES_MAX)
  if (named.length === 0) return images
  try {
    const ended = await findEnded(context, tenantScope(request), execution_id)
    for (const { path } of named) {
      const ref = ended?.artifactRefs.find((candidate) => candidate.path === path)?.ref
      const blob =
        ref === undefined ? null : await context.store.blobs.read(ref, { start: 0, end: IMAGE_BYTES })
      const mimeType = blob === null ? null : imageTypeOf(blob.bytes)
      if (blob !== null && mimeType !== null)
        images.set(path, { type: 'image', data: Buffer.from(blob.bytes).toString('base64'), mimeType })
    }
  } catch (error) {
    request.log.warn({ err: error }, 'images of an MCP result were not read')
  }
  return images
}

/** PNG, JPEG and WebP by their first bytes: a name proves nothing. Null for anything else. */
export function imageTypeOf(bytes: Uint8Array): string | null {
  const head = Buffer.from(bytes.subarray(0, 12)).toString('latin1')
  if (head.startsWith('\u0089PNG\r\n\u001a\n')) return 'image/png'
  if (head.startsWith('\u00ff\u00d8\u00ff')) return 'image/jpeg'
  return head.startsWith('RIFF') && head.endsWith('WEBP') ? 'image/webp' : null
}
