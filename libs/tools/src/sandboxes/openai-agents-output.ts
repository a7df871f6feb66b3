/** The text that a model gets of a command, in the form of the SDK's own sandboxes. */
import type { ExecResult } from './openai-agents-shape.ts'

/** The SDK counts four bytes as a token. */
const TOKEN_BYTES = 4

/** Head and tail of `text`, with a note between them, when it has more tokens than `maxTokens`. */
export function cutToTokens(
  text: string,
  maxTokens: number | undefined,
): { text: string; originalTokenCount?: number } {
  const bytes = new TextEncoder().encode(text)
  const most = (maxTokens ?? Number.POSITIVE_INFINITY) * TOKEN_BYTES
  if (bytes.length <= most) return { text }
  const tokens = (count: number): number => Math.ceil(count / TOKEN_BYTES)
  const half = Math.floor(most / 2)
  // A character that the cut splits is left out, not shown as a replacement.
  const decode = (part: Uint8Array): string => new TextDecoder().decode(part).replaceAll(/^�+|�+$/g, '')
  const [head, tail] = [decode(bytes.subarray(0, half)), decode(bytes.subarray(bytes.length - half))]
  return {
    text: `${head}...${tokens(bytes.length - 2 * half)} tokens truncated...${tail}`,
    originalTokenCount: tokens(bytes.length),
  }
}

/** The lines that `exec_command` returns. */
export const execText = ({ wallTimeSeconds, exitCode, originalTokenCount, output }: ExecResult): string =>
  [
    `Wall time: ${wallTimeSeconds.toFixed(4)} seconds`,
    `Process exited with code ${exitCode}`,
    ...(originalTokenCount === undefined ? [] : [`Original token count: ${originalTokenCount}`]),
    'Output:',
    output,
  ].join('\n')
