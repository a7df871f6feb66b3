/**
 * The dashboard's files: `/` and the addresses of its pages answer with index.html, `/assets/*` with what
 * vite built. The folder is read for each request, so a build is served without a restart.
 */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import staticFiles from '@fastify/static'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { noSuchPath } from '../error-response.ts'

/** Where `npm start`, the image and the package have the build, beside this app. */
const BUILT = fileURLToPath(new URL('../../../dashboard/dist', import.meta.url))

/**
 * Scripts and styles of our own files only, nothing inline, and no string becomes HTML or code (Trusted
 * Types). Images may be blobs: the page checks the bytes of an artifact before it shows them.
 */
const PAGE_HEADERS = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; " +
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
    "require-trusted-types-for 'script'; trusted-types 'none'",
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'permissions-policy': 'camera=(), microphone=(), geolocation=()',
} as const

/** Names have a hash of the content, so a file never changes. */
const FOREVER = 'public, max-age=31536000, immutable'

/** Paths that the API answers itself. No page of the dashboard is at such a path. */
const OF_API = /^\/(v1|ui|mcp|api|docs|assets|metrics|healthz|readyz|openapi\.json|\.well-known)(\/|$)/

/** Whether a browser asks for a page: GET or HEAD, HTML accepted, and an address that is not the API's. */
export function asksForPage({ method, headers, url }: FastifyRequest): boolean {
  const reads = method === 'GET' || method === 'HEAD'
  return reads && headers.accept?.includes('text/html') === true && !OF_API.test(url.split('?', 1)[0] ?? '')
}

/**
 * Answers with the dashboard's page. If the dashboard was not built, answers with instructions to build it.
 */
export type SendPage = (reply: FastifyReply) => Promise<FastifyReply>

/** Adds `/` and `/assets/*`. `folder` is the build, by default that of this tree. */
export async function addPageFiles(app: FastifyInstance, folder: string = BUILT): Promise<SendPage> {
  const send: SendPage = async (reply) => {
    void reply.headers(PAGE_HEADERS)
    const page = await readFile(path.join(folder, 'index.html'), 'utf8').catch(() => null)
    return reply
      .code(page === null ? 503 : 200)
      .header('cache-control', page === null ? 'no-store' : 'no-cache')
      .type('text/html; charset=utf-8')
      .serializer(String)
      .send(page ?? NO_BUILD)
  }
  app.get('/', { schema: { hide: true } }, (_request, reply) => send(reply))
  await app.register(async (inside) => {
    inside.addHook('onRequest', async (_request, reply) => {
      void reply.headers(PAGE_HEADERS)
    })
    // The plugin refuses paths such as `//` and `..` with its own status. We answer all of them with our 404.
    inside.setErrorHandler((error: Error & { statusCode?: number }) => {
      const { statusCode = 500 } = error
      throw statusCode < 500 ? noSuchPath() : error
    })
    await inside.register(staticFiles, {
      root: path.join(folder, 'assets'),
      prefix: '/assets/',
      // The build may be absent.
      suppressWarning: true,
      index: false,
      dotfiles: 'deny',
      decorateReply: false,
      preCompressed: true,
      cacheControl: false,
      setHeaders: (reply) => void reply.header('cache-control', FOREVER),
    })
  })
  return send
}

/** What `/` says when the dashboard was not built. Without scripts and styles, as its headers demand. */
const NO_BUILD = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>Cofferdam: the dashboard is not built</title>
</head>
<body>
<main>
<h1>The dashboard is not built</h1>
<p>The API works: see <a href="/docs">/docs</a> and <a href="/readyz">/readyz</a>. Only its pages are
missing.</p>
<p>To get them, do one of these, then load this page again:</p>
<ul>
<li>In a clone of the repository: <code>npm run dashboard</code>, or restart with <code>npm start</code>.</li>
<li>In an image: build it with <code>infra/compose/Dockerfile</code>, which brings them.</li>
<li>Somewhere else: build them in a clone, and set <code>COFFERDAM_DASHBOARD_DIR</code> to
<code>apps/dashboard/dist</code> there.</li>
</ul>
</main>
</body>
</html>
`
