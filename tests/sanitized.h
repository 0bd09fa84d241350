#pragma once
// TRANCHE_SANITIZED: whether a sanitizer is in this build; TRANCHE_THREAD_SANITIZED: whether ThreadSanitizer is. g++
// and clang say it in their own ways.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRANCHE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRANCHE_SANITIZED 1
#endif
#endif
#ifndef TRANCHE_SANITIZED
#define TRANCHE_SANITIZED 0
#endif
#if defined(__SANITIZE_THREAD__)
#define TRANCHE_THREAD_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TRANCHE_THREAD_SANITIZED 1
#endif
#endif
#ifndef TRANCHE_THREAD_SANITIZED
#define TRANCHE_THREAD_SANITIZED 0
#endif
