import { expect, it } from 'vitest'
import { linesOf } from './read-answer.ts'

async function* chunks(...texts: string[]): AsyncGenerator<Uint8Array> {
  for (const text of texts) yield new TextEncoder().encode(text)
}

it('yields complete lines, wherever a chunk ends, and drops an incomplete last one', async () => {
  expect(await Array.fromAsync(linesOf(chunks('a\nb', 'c\n\nd')))).toEqual(['a', 'bc', ''])
})

it('throws a CofferdamError for an endless line', async () => {
  const endless = Array.from({ length: 9 }, () => 'x'.repeat(1 << 20))
  await expect(Array.fromAsync(linesOf(chunks(...endless)))).rejects.toMatchObject({ code: 'internal' })
})
