#!/usr/bin/env node
// The command, from any folder: the bootstrap installs if needed and runs src/main.ts on the pinned Node.
import { fileURLToPath } from 'node:url'

process.argv.splice(2, 0, fileURLToPath(new URL('../src/main.ts', import.meta.url)))
await import('../../../scripts/bootstrap.mjs')
