import type { Artifact } from '@cofferdam/client'
import { useEffect, useState } from 'preact/hooks'
import { send } from '../../../api/call.ts'
import { asFailure } from '../../../api/failure.ts'
import { plainText } from '../../../words/plain.ts'
import { imageKind } from './image-kind.ts'
import { tableOf } from './table-text.ts'
import { TableView } from './table-view.tsx'

/** Larger images are not shown, only downloaded. Of a longer text, the beginning is shown. */
const MOST_IMAGE_BYTES = 16 * 1024 * 1024
const MOST_TEXT_BYTES = 256 * 1024

const IMAGE = /\.(png|jpe?g|gif|webp|avif)$/i
const TEXT = /\.(csv|tsv|json|ndjson|txt|md|log)$/i

/** Whether a name promises something that can be shown. The bytes decide whether it is. */
export const canBePreviewed = ({ path, size }: Artifact): boolean =>
  (IMAGE.test(path) && size > 0 && size <= MOST_IMAGE_BYTES) || (TEXT.test(path) && size > 0)

type Shown =
  | { kind: 'image'; address: string; width: number; height: number }
  | { kind: 'table'; rows: readonly (readonly string[])[] }
  | { kind: 'text'; text: string; isCut: boolean }
  | { kind: 'no'; why: string }

async function load(path: string, address: string, signal: AbortSignal): Promise<Shown> {
  if (!IMAGE.test(path)) {
    const answer = await send('GET', address, { signal })
    const bytes = await firstBytes(answer, MOST_TEXT_BYTES)
    const text = new TextDecoder().decode(bytes)
    const isCut = bytes.byteLength >= MOST_TEXT_BYTES
    if (!/\.[ct]sv$/i.test(path)) return { kind: 'text', text, isCut }
    return { kind: 'table', rows: tableOf(text, /\.tsv$/i.test(path) ? '\t' : ',') }
  }
  const bytes = new Uint8Array(await (await send('GET', address, { signal })).arrayBuffer())
  const kind = imageKind(bytes)
  if (kind === null) return { kind: 'no', why: 'Its content is not the image that its name says.' }
  // The type is the one that was found, never one that the program named.
  const blob = new Blob([bytes], { type: kind.type })
  return { kind: 'image', address: URL.createObjectURL(blob), width: kind.width, height: kind.height }
}

/** The first bytes of an answer. The rest is not fetched. */
async function firstBytes(answer: Response, most: number): Promise<Uint8Array> {
  const reader = answer.body?.getReader()
  const parts: Uint8Array[] = []
  let length = 0
  while (reader !== undefined && length < most) {
    const { done, value } = await reader.read()
    if (done) break
    parts.push(value)
    length += value.byteLength
  }
  await reader?.cancel()
  const all = new Uint8Array(length)
  let at = 0
  for (const part of parts) {
    all.set(part, at)
    at += part.byteLength
  }
  return all.subarray(0, most)
}

/** A file on the page. It is loaded when it is opened. */
export function ArtifactPreview(props: { path: string; address: string; opens: boolean }) {
  const { path, address } = props
  const [isOpen, setOpen] = useState(props.opens)
  const [shown, setShown] = useState<Shown | null>(null)
  useEffect(() => {
    if (!isOpen) return undefined
    const ended = new AbortController()
    let made: Shown | null = null
    load(path, address, ended.signal)
      .catch((error: unknown): Shown => ({ kind: 'no', why: asFailure(error).message }))
      .then((found) => {
        made = found
        if (!ended.signal.aborted) setShown(found)
        else if (found.kind === 'image') URL.revokeObjectURL(found.address)
      })
      .catch(() => undefined)
    return () => {
      ended.abort()
      if (made?.kind === 'image') URL.revokeObjectURL(made.address)
    }
  }, [isOpen, path, address])
  return (
    <details class="preview" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        Preview<span class="unseen"> of {plainText(path)}</span>
      </summary>
      {isOpen && shown === null && <p class="muted">Loading</p>}
      {shown !== null && <PreviewContent shown={shown} path={path} />}
    </details>
  )
}

function PreviewContent({ shown, path }: { shown: Shown; path: string }) {
  switch (shown.kind) {
    case 'image':
      return <img src={shown.address} alt={path} width={shown.width} height={shown.height} />
    case 'table':
      return <TableView rows={shown.rows} name={path} />
    case 'text':
      return (
        <pre tabIndex={0}>
          {plainText(shown.text)}
          {shown.isCut && '\n… the rest is left out'}
        </pre>
      )
    case 'no':
      return <p class="muted">{shown.why}</p>
  }
}
