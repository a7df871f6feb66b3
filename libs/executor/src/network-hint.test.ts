/** The exact output of resolvers and package managers without a network, and the hint for the user. */
import { NO_PACKAGES } from '@cofferdam/tasks'
import { expect, it } from 'vitest'
import { networkHint } from './network-hint.ts'

it.each([
  ['Python', 'socket.gaierror: [Errno -3] Temporary failure in name resolution'],
  ['musl', 'socket.gaierror: [Errno -2] Name or service not known'],
  [
    'Node',
    '  [cause]: Error: getaddrinfo EAI_AGAIN example.com\n      at GetAddrInfoReqWrap.onlookupall\n\nNode.js v26.0.0',
  ],
  ['curl', 'curl: (6) Could not resolve host: example.com'],
  ['wget', "wget: unable to resolve host address 'example.com'"],
  ['requests', 'NameResolutionError("Failed to resolve \'example.com\' ([Errno -3] x)")'],
  ['Go', 'Get "https://example.com": dial tcp: lookup example.com: no such host'],
])('hints at the network after a failed lookup of %s', (_who, printed) => {
  const hint = networkHint('none', printed, NO_PACKAGES)
  expect(hint).toContain('network "public" or {"allow": ["host"]}')
  expect(hint).not.toContain('packages')
  expect(networkHint('public', printed, NO_PACKAGES)).toContain('HTTP_PROXY')
})

it.each([
  'WARNING: Retrying: NewConnectionError: [Errno -3] Temporary failure in name resolution: /simple/x\nERROR: No matching distribution found for x\n[notice] pip',
  'ERROR: Could not find a version that satisfies the requirement sums (from versions: none)',
  'error: externally-managed-environment',
  'npm error code EAI_AGAIN\nnpm error request to https://registry.example/x failed, reason: getaddrinfo EAI_AGAIN registry.example',
])('names the package proxy to a package manager', (printed) => {
  expect(networkHint('none', printed, NO_PACKAGES)).toContain('{"allow": ["packages.cofferdam.internal"]}')
})

it("names the packages that the tenant's rules left out, for any package manager", () => {
  const refused = [{ name: 'evil', reason: "package evil is not on the tenant's allow-list" }]
  expect(networkHint('public', 'ERROR: HTTP error 403', { ...NO_PACKAGES, refused })).toBe(
    "Refused were evil (package evil is not on the tenant's allow-list).",
  )
  const narrowed = [{ name: 'sums', rule: 'sums==1.*' }]
  const printed = 'ERROR: No matching distribution found for sums==2.0'
  expect(networkHint('public', printed, { ...NO_PACKAGES, narrowed })).toContain('sums (allowed: sums==1.*)')
})

it('says nothing about programs that failed for other reasons', () => {
  expect(networkHint('none', 'ValueError: could not convert', NO_PACKAGES)).toBeNull()
  const narrowed = [{ name: 'sums', rule: 'sums==1.*' }]
  expect(networkHint('public', 'ValueError: x', { ...NO_PACKAGES, narrowed })).toBeNull()
})
