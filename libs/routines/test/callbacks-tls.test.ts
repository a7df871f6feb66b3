/** A callback to a server with an untrusted certificate must fail with the reason and send nothing. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createJudgedDial } from '@cofferdam/egress'
import { needs } from '@cofferdam/embedded/needs'
import { expect } from 'vitest'
import { postOnce } from '../src/callbacks/post-once.ts'

needs('openssl').it('a callback is refused when the receiver’s certificate is not trusted', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-tls-'))
  const request = [
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-days',
    '1',
  ]
  const names = ['-subj', '/CN=receiver.test', '-addext', 'subjectAltName=DNS:receiver.test']
  const files = ['-keyout', join(folder, 'key.pem'), '-out', join(folder, 'cert.pem')]
  execFileSync('openssl', [...request, ...names, ...files], { stdio: 'ignore' })
  const seen: string[] = []
  const server = createServer(
    { key: readFileSync(join(folder, 'key.pem')), cert: readFileSync(join(folder, 'cert.pem')) },
    (incoming, answer) => {
      seen.push(incoming.url ?? '')
      answer.end()
    },
  )
  const handshakes: string[] = []
  server.on('connection', () => handshakes.push('tcp'))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const dial = createJudgedDial({
    privateAllow: ['127.0.0.1/32'],
    resolve: async () => ['127.0.0.1'],
  })
  try {
    const url = new URL(`https://receiver.test:${port}/`)
    const posted = await postOnce(dial, url, '{}', {}, new AbortController().signal)
    expect(posted).toEqual({
      ok: false,
      status: null,
      error: 'TLS failed (DEPTH_ZERO_SELF_SIGNED_CERT)',
      final: false,
    })
    expect(handshakes).toEqual(['tcp'])
    expect(seen).toEqual([])
  } finally {
    server.closeAllConnections()
    server.close()
    await once(server, 'close')
    rmSync(folder, { recursive: true, force: true })
  }
})
