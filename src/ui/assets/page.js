// Makes the page more comfortable; everything works without it. Who signs in here is known to this tab's memory alone: pages
// are then asked for with the credentials and put in place of the one that is shown.
'use strict';
(() => {
  const home = '/_spinney/ui/';
  let authorization = null;
  let name = '';
  let asked = 0;
  let byPointer = false;

  const all = (selector) => [...document.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);
  const isPage = (url) => url.origin === location.origin && url.pathname.startsWith(home);

  // ---- what a new page needs ----

  function dress() {
    for (const element of all('[data-needs-script]')) element.hidden = false;
    const signedIn = authorization !== null;
    for (const button of all('.tools [data-sign-in]')) button.hidden = signedIn;
    for (const button of all('[data-sign-out]')) button.hidden = !signedIn;
    for (const who of all('[data-who]')) {
      who.hidden = !signedIn;
      who.textContent = who.dataset.text.replace('{}', name);
    }
  }

  // ---- pages in place, for who has signed in ----

  async function ask(url, body) {
    const headers = { 'x-spinney-page': '1', accept: 'text/html' };
    if (authorization) headers.authorization = authorization;
    const method = body ? 'POST' : 'GET';
    return fetch(url, { method, body, headers, credentials: 'same-origin', redirect: 'follow' });
  }

  async function go(url, { push = true, scroll = null, body = undefined } = {}) {
    const number = ++asked;
    const progress = one('[data-progress]');
    const status = one('[data-status]');
    progress.hidden = false;
    status.textContent = status.dataset.loading;
    try {
      const response = await ask(url, body);
      const text = await response.text();
      if (number !== asked) return response.status;
      const shown = new URL(response.redirected ? response.url : url, location.href);
      shown.hash = new URL(url, location.href).hash;
      if (push) history.pushState({ spinney: true }, '', shown);
      show(new DOMParser().parseFromString(text, 'text/html'));
      if (shown.hash && document.getElementById(shown.hash.slice(1))) {
        document.getElementById(shown.hash.slice(1)).scrollIntoView();
      } else {
        scrollTo(0, scroll ?? 0);
      }
      one('main').focus({ preventScroll: true });
      one('[data-status]').textContent = document.title;
      return response.status;
    } catch {
      if (number === asked) location.assign(url);
      return 0;
    } finally {
      if (number === asked) one('[data-progress]').hidden = true;
    }
  }

  function show(page) {
    const root = page.documentElement;
    document.documentElement.lang = root.lang;
    document.documentElement.dataset.theme = root.dataset.theme;
    document.title = page.title;
    for (const part of ['.skip', '.top', 'main', '.bottom', '[data-dialog]', '[data-keys-dialog]', '[data-status]']) {
      const [old, fresh] = [one(part), page.querySelector(part)];
      if (old && fresh) old.replaceWith(document.adoptNode(fresh));
    }
    dress();
  }

  // A file needs the credentials as well.
  async function save(url, name) {
    const response = await ask(url).catch(() => null);
    // Nobody wants an error under that name: the page says what is wrong.
    if (!response?.ok) return go(location.href, { push: false });
    const link = document.createElement('a');
    link.href = URL.createObjectURL(await response.blob());
    link.download = name;
    link.click();
    URL.revokeObjectURL(link.href);
  }

  // ---- signing in and out ----

  function basic(user, password) {
    const bytes = new TextEncoder().encode(`${user}:${password}`);
    return `Basic ${btoa(String.fromCharCode(...bytes))}`;
  }

  async function signIn(form) {
    const said = new FormData(form);
    const isBasic = said.get('how') === 'basic';
    authorization = isBasic
      ? basic(said.get('user'), said.get('password'))
      : `${said.get('kind')} ${said.get('token').trim()}`;
    name = isBasic ? said.get('user') : said.get('kind');
    let response = null;
    try {
      response = await ask(location.href);
    } catch {
      // Shown as a wrong one below: there is no answer to show.
    }
    const page = response && new DOMParser().parseFromString(await response.text(), 'text/html');
    if (!response || response.status === 401 || page.querySelector('[data-asks-who]')) {
      authorization = null;
      form.querySelector('[data-wrong]').hidden = false;
      form.querySelector(isBasic ? '[name=user]' : '[name=token]').focus();
      return;
    }
    form.reset();
    form.closest('dialog').close();
    show(page);
    one('main').focus({ preventScroll: true });
  }

  function choose(form) {
    const how = new FormData(form).get('how');
    for (const part of form.querySelectorAll('[data-how]')) part.hidden = part.dataset.how !== how;
  }

  // ---- what readers do ----

  document.addEventListener('click', (event) => {
    const target = event.target.closest('a, button');
    if (!target) return;
    if (target.matches('[data-sign-in]')) {
      const dialog = one('[data-dialog]');
      dialog.querySelector('[data-wrong]').hidden = true;
      choose(dialog.querySelector('form'));
      dialog.showModal();
      return;
    }
    if (target.matches('[data-keys]')) {
      one('[data-keys-dialog]').showModal();
      return;
    }
    if (target.matches('[data-cancel]')) {
      target.closest('dialog').close();
      return;
    }
    if (target.matches('[data-sign-out]')) {
      authorization = null;
      name = '';
      go(home);
      return;
    }
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!target.href || !plain || target.target) return;
    const url = new URL(target.href);
    if (!isPage(url)) return;
    if (target.matches('[data-theme-choice]')) {
      // At once; the answer is for the cookie.
      event.preventDefault();
      document.documentElement.dataset.theme = target.dataset.themeChoice;
      for (const link of all('[data-theme-choice]')) link.removeAttribute('aria-current');
      target.setAttribute('aria-current', 'true');
      fetch(url, { headers: { 'x-spinney-page': '1', ...(authorization && { authorization }) } }).catch(() => {});
      return;
    }
    const isHere = url.pathname === location.pathname && url.search === location.search && url.hash;
    if (authorization && target.matches('[data-file]')) {
      event.preventDefault();
      save(url, target.dataset.file);
      return;
    }
    if (authorization && !isHere) {
      event.preventDefault();
      history.replaceState({ spinney: true, scroll: scrollY }, '');
      go(url);
    }
  });

  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (form.matches('[data-sign-in-form]')) {
      event.preventDefault();
      signIn(form);
      return;
    }
    if (form.method === 'post') {
      // Without them, the browser would ask who it is.
      if (!authorization) return;
      event.preventDefault();
      go(form.action, { body: new URLSearchParams(new FormData(form)) });
      return;
    }
    if (form.method !== 'get') return;
    // What is empty says nothing: the address stays short.
    const url = new URL(form.action, location.href);
    url.search = new URLSearchParams([...new FormData(form)].filter(([, value]) => value)).toString();
    event.preventDefault();
    if (authorization) go(url);
    else location.assign(url);
  });

  document.addEventListener('change', (event) => {
    const form = event.target.form;
    if (!form) return;
    if (form.matches('[data-sign-in-form]')) choose(form);
    // Arrow keys change a list of choices on the way to the one that is meant: only a pointer means it at once.
    else if (byPointer && form.matches('[data-finder]') && event.target.matches('select')) form.requestSubmit();
  });
  document.addEventListener('pointerdown', () => { byPointer = true; });
  document.addEventListener('keydown', () => { byPointer = false; }, true);

  // "/" goes to the search box, j and k go through a list, ? lists the keys.
  document.addEventListener('keydown', (event) => {
    if (event.metaKey || event.ctrlKey || event.altKey) return;
    if (event.target.closest('input, select, textarea, dialog')) return;
    if (event.key === '/') {
      const search = one('[data-search]');
      if (search) {
        event.preventDefault();
        search.focus();
        search.select();
      }
    } else if (event.key === '?') {
      one('[data-keys-dialog]').showModal();
    } else if (event.key === 'j' || event.key === 'k') {
      const entries = all('[data-entry]');
      const step = event.key === 'j' ? 1 : -1;
      const at = entries.indexOf(document.activeElement);
      const next = entries[at < 0 ? (step > 0 ? 0 : entries.length - 1) : at + step];
      if (next) next.focus();
    }
  });

  addEventListener('popstate', (event) => {
    if (authorization) go(location.href, { push: false, scroll: event.state?.scroll });
    else if (event.state?.spinney) location.reload();
  });

  // The reader's time zone: the address tells it once, a cookie from then on.
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const here = new URL(location.href);
  if (timeZone && timeZone !== document.body.dataset.zone && !here.searchParams.has('zone')) {
    here.searchParams.set('zone', timeZone);
    location.replace(here);
  }

  dress();
})();
