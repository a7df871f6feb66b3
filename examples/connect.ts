/** How the examples find the fleet that `npm start` runs: its address, and the key in its data directory. */
import { readFileSync } from 'node:fs'
import { createClient, type Client } from '@cofferdam/client'

export const address = (): string => process.env['COFFERDAM_URL'] ?? 'http://127.0.0.1:7070'
export const key = (): string =>
  process.env['COFFERDAM_API_KEY'] ?? readFileSync('.data/admin.key', 'utf8').trim()

export const connect = (): Client => createClient({ baseUrl: address(), apiKey: key() })
