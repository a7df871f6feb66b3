#!/usr/bin/env node
// The command from anywhere: the bootstrap installs what is stale and starts the pinned Node with src/main.ts.
import { fileURLToPath } from 'node:url'

process.argv.splice(2, 0, fileURLToPath(new URL('../src/main.ts', import.meta.url)))
await import('../../../scripts/bootstrap.mjs')
