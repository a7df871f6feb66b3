/** What `/` says when the dashboard was not built. Without scripts and styles, as its headers demand. */

export const NO_BUILD = `<!doctype html>
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
