/** Images among the artifacts of an execution, for models that see. */
import type { ExecutionResult } from '@cofferdam/client'
import type { CodeImage } from './code-result.ts'
import { imageTypeOf } from './image-type.ts'
import type { ToolClient } from './options.ts'

/** The same bounds as in the API's MCP results. Providers refuse images of more than a few MiB. */
const IMAGES_MAX = 4
const IMAGE_BYTES = 1024 * 1024

const NAMED_IMAGE = /\.(png|jpe?g|webp)$/i
/** How many shown images are remembered, over all sessions. The oldest are forgotten first. */
const SHOWN_MAX = 512

export interface Images {
  /** Fetches the images that the model has not seen yet. An image that cannot be fetched is left out. */
  fetch(result: ExecutionResult, session: string | undefined, signal?: AbortSignal): Promise<CodeImage[]>
}

/** In a session, files stay. An image of an earlier call is fetched again only after it changed. */
export function createImages(client: ToolClient, onProblem: (error: unknown) => void): Images {
  const shown = new Set<string>()
  const markOf = (session: string, { path, sha256 }: { path: string; sha256: string }): string =>
    `${session}\n${path}\n${sha256}`

  return {
    async fetch({ execution_id, artifacts }, session, signal) {
      const wanted = artifacts
        .filter(({ path, size }) => size <= IMAGE_BYTES && NAMED_IMAGE.test(path))
        .filter((artifact) => session === undefined || !shown.has(markOf(session, artifact)))
        .slice(0, IMAGES_MAX)
      const images: CodeImage[] = []
      for (const artifact of wanted) {
        try {
          const options = signal === undefined ? {} : { signal }
          const bytes = await client.executions.artifact(execution_id, artifact.path, options)
          const type = imageTypeOf(bytes)
          if (type === null) continue
          images.push({ path: artifact.path, media_type: type, data: base64Of(bytes) })
          if (session !== undefined) shown.add(markOf(session, artifact))
        } catch (error) {
          if (signal?.aborted === true) throw error
          onProblem(error)
        }
      }
      for (const mark of shown) if (shown.size > SHOWN_MAX) shown.delete(mark)
      return images
    },
  }
}

/** `btoa` takes a string with one character per byte. All platforms of this package have it. */
function base64Of(bytes: Uint8Array): string {
  const parts: string[] = []
  for (let at = 0; at < bytes.length; at += 8192)
    parts.push(String.fromCharCode(...bytes.subarray(at, at + 8192)))
  return btoa(parts.join(''))
}
