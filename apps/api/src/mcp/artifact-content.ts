/**
 * Artifacts in a tool's answer: small images as images, all others as links. Bytes decide the type, not
 * names.
 */
import type { ExecutionResult } from '@cofferdam/contract'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { tenantScope } from '../authenticate.ts'
import { findEnded } from '../find-execution.ts'
import { DECIDING_BYTES, mediaTypeOf } from '../media-type.ts'
import type { Exchange } from './exchange.ts'
import { artifactUri } from './resource-uris.ts'

const IMAGES_MAX = 4
const IMAGE_BYTES = 1024 * 1024
/** Links beyond this are left out. All artifacts are in the structured content. */
const LINKS_MAX = 32
/** The images that models take. */
const IMAGE_TYPES: readonly string[] = ['image/png', 'image/jpeg', 'image/webp']

type Content = CallToolResult['content']

/** An artifact that was found in the store, and its media type. */
interface Looked {
  ref: string
  mimeType: string
}

export async function artifactContent(exchange: Exchange, result: ExecutionResult): Promise<Content> {
  const looked = new Map<string, Looked>()
  const images = new Map<string, Content[number]>()
  try {
    await lookAt(exchange, result, looked)
    await readImages(exchange, result, looked, images)
  } catch (error) {
    // The artifacts that were not read become links, some without a type.
    exchange.request.log.warn({ err: error }, 'artifacts of an MCP result were not read')
  }
  const links = result.artifacts
    .filter(({ path }) => !images.has(path))
    .slice(0, LINKS_MAX)
    .map(({ path, size }) => {
      const mimeType = looked.get(path)?.mimeType
      return {
        type: 'resource_link' as const,
        uri: artifactUri(result.execution_id, path),
        name: path,
        size,
        ...(mimeType === undefined ? {} : { mimeType }),
      }
    })
  return [...images.values(), ...links]
}

/** Reads the first bytes of every artifact that can be in the answer. */
async function lookAt(
  { context, request }: Exchange,
  { artifacts, execution_id }: ExecutionResult,
  looked: Map<string, Looked>,
): Promise<void> {
  if (artifacts.length === 0) return
  const ended = await findEnded(context, tenantScope(request), execution_id)
  const refs = ended?.artifactRefs.slice(0, IMAGES_MAX + LINKS_MAX) ?? []
  await Promise.all(
    refs.map(async ({ path, ref }) => {
      const head = await context.store.blobs.read(ref, { start: 0, end: DECIDING_BYTES })
      if (head !== null) looked.set(path, { ref, mimeType: mediaTypeOf(head.bytes, head.total) })
    }),
  )
}

async function readImages(
  { context }: Exchange,
  { artifacts }: ExecutionResult,
  looked: ReadonlyMap<string, Looked>,
  images: Map<string, Content[number]>,
): Promise<void> {
  for (const { path, size } of artifacts) {
    const { ref, mimeType } = looked.get(path) ?? { ref: '', mimeType: '' }
    if (size > IMAGE_BYTES || !IMAGE_TYPES.includes(mimeType)) continue
    const blob = await context.store.blobs.read(ref, { start: 0, end: IMAGE_BYTES })
    if (blob !== null)
      images.set(path, { type: 'image', data: Buffer.from(blob.bytes).toString('base64'), mimeType })
    if (images.size === IMAGES_MAX) return
  }
}

/** The type of an image that models take. Null for anything else. */
export function imageTypeOf(bytes: Uint8Array): string | null {
  const type = mediaTypeOf(bytes, bytes.length)
  return IMAGE_TYPES.includes(type) ? type : null
}
