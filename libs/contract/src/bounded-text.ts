/** Text is bounded by the bytes that it takes, not by its characters. */
import { z } from 'zod'

/** A string of at most so many bytes of UTF-8. */
export const utf8 = (bytes: number) =>
  z
    .string()
    .max(bytes)
    .refine((text) => Buffer.byteLength(text) <= bytes, `expected at most ${bytes} bytes of UTF-8`)
